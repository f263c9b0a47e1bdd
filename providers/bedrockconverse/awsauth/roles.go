package awsauth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// identity is a role assumed with a web identity token.
type identity struct{ file, role, session string }

// identity returns the source of a web identity role. The token file is read for each request, since
// it changes.
func (c *Chain) identity(name, region string, i identity) source {
	return source{name: name, id: fmt.Sprint("identity ", i), fetch: func(ctx context.Context) (Credentials, error) {
		token, err := os.ReadFile(i.file)
		if err != nil {
			return Credentials{}, err
		}
		return c.assumeRole(ctx, region, nil, url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "RoleArn": {i.role}, "RoleSessionName": {sessionName(i.session)},
			"WebIdentityToken": {strings.TrimSpace(string(token))},
		})
	}}
}

// sessionName returns the role session name, which the vendor's logs contain.
func sessionName(name string) string { return cmp.Or(name, "parley") }

// role returns the source of a role assumed with the credentials of another source.
func (c *Chain) role(name, region string, of source, settings map[string]string) source {
	params := url.Values{
		"Action": {"AssumeRole"}, "RoleArn": {settings["role_arn"]}, "RoleSessionName": {sessionName(settings["role_session_name"])},
	}
	for key, param := range map[string]string{"external_id": "ExternalId", "duration_seconds": "DurationSeconds"} {
		if v := settings[key]; v != "" {
			params.Set(param, v)
		}
	}
	id := fmt.Sprint("role ", settings, of.id, of.keys)
	return source{name: name, id: id, fetch: func(ctx context.Context) (Credentials, error) {
		keys := of.keys
		if of.fetch != nil {
			var err error
			if keys, err = of.fetch(ctx); err != nil {
				return Credentials{}, err
			}
		}
		return c.assumeRole(ctx, region, &keys, params)
	}}
}

// assumeRole requests the credentials of a role, signed by signer or authorized by params.
func (c *Chain) assumeRole(ctx context.Context, region string, signer *Credentials, params url.Values) (Credentials, error) {
	params.Set("Version", "2011-06-15")
	form := params.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.tokenService(region), strings.NewReader(form))
	if err != nil {
		return Credentials{}, fmt.Errorf("build request: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if signer != nil {
		Sign(r, *signer, region, "sts", sha256.Sum256([]byte(form)), time.Now())
	}
	answer, err := c.ask(r)
	if err != nil {
		return Credentials{}, err
	}
	var taken struct {
		// Either of the two actions.
		Role     roleXML `xml:"AssumeRoleResult>Credentials"`
		Identity roleXML `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(answer, &taken); err != nil {
		return Credentials{}, errors.New("token service response is not credentials XML")
	}
	keys := cmp.Or(taken.Role, taken.Identity)
	if keys.AccessKeyID == "" || keys.SecretAccessKey == "" {
		return Credentials{}, &statusError{status: http.StatusOK, code: "without credentials"}
	}
	return Credentials{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken, Expires: keys.Expiration}, nil
}

type roleXML struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      time.Time
}

// tokenService returns the address of the security token service.
func (c *Chain) tokenService(region string) string {
	if base := c.env("AWS_ENDPOINT_URL_STS"); base != "" {
		return base
	}
	host := "https://sts." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return host + "/"
}

// wordOf returns the error code in the response of a service. Its message may repeat the request.
func wordOf(body []byte) string {
	var x struct {
		Code string `xml:"Error>Code"`
	}
	if xml.Unmarshal(body, &x) == nil && x.Code != "" {
		return word(x.Code)
	}
	var j struct{ Code string }
	_ = json.Unmarshal(body, &j) // other responses have no code
	return word(j.Code)
}

// word returns s if it is a code, else "".
func word(s string) string {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.'
	}
	if len(s) > 64 || strings.ContainsFunc(s, odd) {
		return ""
	}
	return s
}
