package awsauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// maxResponse bounds a service's response, in bytes, and maxWait the time for a local service.
const (
	maxResponse = 64 << 10
	maxWait     = 2 * time.Second
)

// newClient returns a client without a proxy for local services, which have no TLS. It follows no
// redirects with credentials.
func newClient() *http.Client {
	proxy := func(r *http.Request) (*url.URL, error) {
		if r.URL.Scheme == "http" {
			return nil, nil
		}
		return http.ProxyFromEnvironment(r)
	}
	return &http.Client{
		Transport:     &http.Transport{Proxy: proxy, ForceAttemptHTTP2: true, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// statusError reports a response without credentials.
type statusError struct {
	status int
	// code is the service's error code, possibly empty.
	code string
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("service returned status %d %s", e.status, e.code))
}

// unreachableError reports a service that did not respond.
type unreachableError struct {
	host string
	err  error
}

// Error returns the host and the cause.
func (e *unreachableError) Error() string {
	return fmt.Sprintf("request to %s failed: %v", e.host, e.err)
}

// Unwrap returns the cause.
func (e *unreachableError) Unwrap() error { return e.err }

// ask makes a request and returns the response body.
func (c *Chain) ask(r *http.Request) ([]byte, error) {
	resp, err := c.client.Do(r)
	if err != nil {
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err // without the path, which may be a secret
		}
		return nil, &unreachableError{r.URL.Host, err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return nil, &unreachableError{r.URL.Host, err}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{status: resp.StatusCode, code: wordOf(body)}
	}
	return body, nil
}

// get makes a request to a local service.
func (c *Chain) get(ctx context.Context, address string, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("build request: %w", err)
	}
	r.Header = header
	return c.ask(r)
}

// credentialsJSON is the credentials format of local services.
type credentialsJSON struct {
	Code                   string
	AccessKeyID            string `json:"AccessKeyId"`
	SecretAccessKey, Token string
	Expiration             time.Time
}

func credentialsOf(answer []byte) (Credentials, error) {
	var l credentialsJSON
	if err := json.Unmarshal(answer, &l); err != nil {
		return Credentials{}, errors.New("response is not credentials JSON") // the body may contain parts of them
	}
	if l.AccessKeyID == "" || l.SecretAccessKey == "" {
		return Credentials{}, &statusError{status: http.StatusOK, code: cmp.Or(word(l.Code), "without credentials")}
	}
	return Credentials{AccessKeyID: l.AccessKeyID, SecretAccessKey: l.SecretAccessKey, SessionToken: l.Token, Expires: l.Expiration}, nil
}

// containerHost is the credentials service of containers.
const containerHost = "http://169.254.170.2"

func (c *Chain) fromContainer() (source, bool, error) {
	name, address := envRelative, c.env(envRelative)
	if address != "" {
		address = containerHost + "/" + strings.TrimPrefix(address, "/")
	} else if name, address = envFull, c.env(envFull); address == "" {
		return source{}, false, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !near(u) {
		return source{name: name}, false, errors.New("address has neither https nor a loopback or link-local host")
	}
	return source{name: name, id: name + address, fetch: func(ctx context.Context) (Credentials, error) {
		header := http.Header{}
		token := c.env("AWS_CONTAINER_AUTHORIZATION_TOKEN")
		if file := c.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
			read, err := os.ReadFile(file)
			if err != nil {
				return Credentials{}, err
			}
			token = strings.TrimSpace(string(read))
		}
		if strings.ContainsAny(token, "\r\n") {
			return Credentials{}, errors.New("container authorization token has more than one line")
		}
		if token != "" {
			header.Set("Authorization", token)
		}
		answer, err := c.get(ctx, address, header)
		if err != nil {
			return Credentials{}, err
		}
		return credentialsOf(answer)
	}}, true, nil
}

// near reports whether traffic to an address is confidential: it uses TLS or stays on this machine and
// its link.
func near(u *url.URL) bool {
	if u.Scheme == "https" || u.Scheme == "http" && u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && err == nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip == netip.MustParseAddr("fd00:ec2::23"))
}

// Instance metadata paths and headers.
const (
	instanceHost  = "http://169.254.169.254"
	instanceToken = "X-Aws-Ec2-Metadata-Token"
)

func (c *Chain) fromInstance() (source, bool) {
	if strings.EqualFold(c.env(envNoInstance), "true") {
		return source{}, false
	}
	base := strings.TrimRight(cmp.Or(c.env(envInstance), instanceHost), "/") + "/latest/"
	return source{name: "instance metadata", id: "instance " + base, fetch: func(ctx context.Context) (Credentials, error) {
		session, err := c.instanceSession(ctx, base)
		if err != nil {
			return Credentials{}, err
		}
		header := http.Header{instanceToken: {session}}
		const roles = "meta-data/iam/security-credentials/"
		list, err := c.get(ctx, base+roles, header)
		if err != nil {
			return Credentials{}, err
		}
		role, _, _ := strings.Cut(strings.TrimSpace(string(list)), "\n")
		if role == "" {
			return Credentials{}, &statusError{status: http.StatusOK, code: "without a role"}
		}
		answer, err := c.get(ctx, base+roles+Escape(role), header)
		if err != nil {
			return Credentials{}, err
		}
		return credentialsOf(answer)
	}}, true
}

// instanceSession requests a session token for the following metadata requests.
func (c *Chain) instanceSession(ctx context.Context, base string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, base+"api/token", nil)
	if err != nil {
		return "", fmt.Errorf("build request: %w", err)
	}
	r.Header.Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
	token, err := c.ask(r)
	return strings.TrimSpace(string(token)), err
}
