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

// identity is a role that is taken by showing a token.
type identity struct{ file, role, session string }

// identity returns the source of a role that a web identity takes. The file is read with
// each question, since the token in it changes.
func (c *Chain) identity(name, region string, i identity) source {
	return source{name: name, id: fmt.Sprint("identity ", i), lender: func(ctx context.Context) (Credentials, error) {
		token, err := os.ReadFile(i.file)
		if err != nil {
			return Credentials{}, err
		}
		return c.takeRole(ctx, region, nil, url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "RoleArn": {i.role}, "RoleSessionName": {sessionName(i.session)},
			"WebIdentityToken": {strings.TrimSpace(string(token))},
		})
	}}
}

// sessionName is the name under which a role is taken, which the vendor's logs show.
func sessionName(name string) string { return cmp.Or(name, "parley") }

// role returns the source of a role that the credentials of another source take.
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
	return source{name: name, id: id, lender: func(ctx context.Context) (Credentials, error) {
		keys := of.keys
		if of.lender != nil {
			var err error
			if keys, err = of.lender(ctx); err != nil {
				return Credentials{}, err
			}
		}
		return c.takeRole(ctx, region, &keys, params)
	}}
}

// takeRole asks the token service for the credentials of a role, by those of signer or by
// what stands in params.
func (c *Chain) takeRole(ctx context.Context, region string, signer *Credentials, params url.Values) (Credentials, error) {
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
		return Credentials{}, errors.New("the answer of the token service is not the XML of credentials")
	}
	keys := cmp.Or(taken.Role, taken.Identity)
	if keys.AccessKeyID == "" || keys.SecretAccessKey == "" {
		return Credentials{}, &answerError{status: http.StatusOK, code: "without credentials"}
	}
	return Credentials{AccessKeyID: keys.AccessKeyID, SecretAccessKey: keys.SecretAccessKey, SessionToken: keys.SessionToken, Expires: keys.Expiration}, nil
}

type roleXML struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      time.Time
}

// tokenService is the address of the service that lends the credentials of roles.
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

// wordOf finds the word for an error in the answer of a service; its sentences may repeat
// the request.
func wordOf(body []byte) string {
	var x struct {
		Code string `xml:"Error>Code"`
	}
	if xml.Unmarshal(body, &x) == nil && x.Code != "" {
		return word(x.Code)
	}
	var j struct{ Code string }
	_ = json.Unmarshal(body, &j) // an answer of any other kind has no word
	return word(j.Code)
}

// word leaves out what is none.
func word(s string) string {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.'
	}
	if len(s) > 64 || strings.ContainsFunc(s, odd) {
		return ""
	}
	return s
}
