package awsauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// Options configures a Chain. Nil and every zero field are valid.
type Options struct {
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(name string) string
	// Client makes requests to credential services. Nil means a client without a proxy for services of
	// this machine.
	Client *http.Client
	// Vendor is the file with the machine's vendor; empty means the path on Linux. It indicates
	// whether instance metadata may exist.
	Vendor string
}

// ErrNone reports that no credentials were found.
var ErrNone = errors.New("no AWS credentials found: set AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, " +
	"or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN")

// SourceError reports a source that failed.
type SourceError struct {
	// Source is the name of the source, see Chain.Source.
	Source string
	// Temporary is set if a retry may succeed.
	Temporary bool
	Err       error
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("get AWS credentials from %s: %v", e.Source, e.Err)
}

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

// UnsupportedError reports a profile with an unsupported setting: one that needs a program, a browser,
// or a device.
type UnsupportedError struct{ Profile, Setting string }

// Error returns the setting and a remedy.
func (e *UnsupportedError) Error() string {
	first := ""
	switch e.Setting {
	case "sso_session", "sso_start_url":
		first = "log in by aws sso login, and "
	case "login_session":
		first = "log in by aws login, and "
	}
	return fmt.Sprintf("profile %q has %s, which is not supported: %sput keys into the environment, as aws configure export-credentials --profile %s --format env prints them",
		e.Profile, e.Setting, first, e.Profile)
}

// Chain finds credentials.
type Chain struct {
	env    func(string) string
	client *http.Client
	vendor string
	cache  *cache
}

// NewChain returns a Chain over the environment. It reads nothing until the first call.
func NewChain(o *Options) *Chain {
	if o == nil {
		o = &Options{}
	}
	c := &Chain{client: o.Client, vendor: cmp.Or(o.Vendor, "/sys/devices/virtual/dmi/id/sys_vendor"), cache: newCache()}
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	c.env = func(name string) string { return strings.TrimSpace(getenv(name)) }
	if c.client == nil {
		c.client = newClient()
	}
	return c
}

// maxTime bounds the search for credentials, all requests together.
const maxTime = 20 * time.Second

// Credentials returns the credentials for signing requests to a region. Its error is that of ctx,
// ErrNone, or a *SourceError, which may wrap an *UnsupportedError.
func (c *Chain) Credentials(ctx context.Context, region string) (Credentials, error) {
	s, err := c.source(region)
	switch {
	case errors.Is(err, ErrNone):
		return Credentials{}, err
	case err != nil:
		return Credentials{}, &SourceError{Source: s.name, Err: err}
	}
	if s.fetch == nil {
		return s.keys, nil
	}
	return c.cache.get(ctx, s.id, func(ctx context.Context) (Credentials, error) {
		ctx, cancel := context.WithTimeout(ctx, maxTime)
		defer cancel()
		keys, err := s.fetch(ctx)
		if err != nil {
			return Credentials{}, c.failed(s, err)
		}
		return keys, nil
	})
}

// Expired reports that the vendor rejects the credentials of r. Temporary credentials are dropped;
// Expired returns whether the next call gets others. Static credentials are kept.
func (c *Chain) Expired(r *http.Request) bool { return c.cache.drop(r.Header.Get(tokenHeader)) }

// failed returns the error of a source.
func (c *Chain) failed(s source, err error) error {
	var answered *statusError
	var unheard *unreachableError
	temporary := errors.As(err, &unheard) || errors.As(err, &answered) && (answered.status >= 500 || answered.status == http.StatusTooManyRequests)
	if s.last && !c.onInstance() {
		return fmt.Errorf("%w, or run on an instance with a role: %w", ErrNone, err)
	}
	return &SourceError{Source: s.name, Temporary: temporary, Err: err}
}

// Source returns the current source of credentials: variables joined by " + ", a profile, or the
// instance metadata; "" for none. It makes no network calls.
func (c *Chain) Source() string {
	s, _ := c.source("")
	if s.last && !c.onInstance() {
		return ""
	}
	return s.name
}

// source is a source of credentials.
type source struct {
	name string
	// keys are static credentials, unless fetch is set.
	keys Credentials
	// fetch requests temporary credentials; id identifies its inputs.
	fetch func(context.Context) (Credentials, error)
	id    string
	// last marks the default source, which no configuration names.
	last bool
}

// Environment variables of the sources.
const (
	envKeyID        = "AWS_ACCESS_KEY_ID"
	envSecret       = "AWS_SECRET_ACCESS_KEY"
	envToken        = "AWS_SESSION_TOKEN"
	envProfile      = "AWS_PROFILE"
	envRelative     = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
	envFull         = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
	envIdentityFile = "AWS_WEB_IDENTITY_TOKEN_FILE"
	envRole         = "AWS_ROLE_ARN"
	envSession      = "AWS_ROLE_SESSION_NAME"
	envNoInstance   = "AWS_EC2_METADATA_DISABLED"
	envInstance     = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
)

// source returns the first available source. With an error it contains the name of the failed source.
func (c *Chain) source(region string) (source, error) {
	if s, ok := c.fromKeys(); ok {
		return s, nil
	}
	if s, ok, err := c.fromProfile(region); ok || err != nil {
		return s, err
	}
	if s, ok, err := c.fromContainer(); ok || err != nil {
		return s, err
	}
	if file := c.env(envIdentityFile); file != "" {
		role := c.env(envRole)
		if role == "" {
			return source{name: envIdentityFile}, fmt.Errorf("%s is not set; set it to the role to assume", envRole)
		}
		return c.identity(envIdentityFile+" + "+envRole, region, identity{file: file, role: role, session: c.env(envSession)}), nil
	}
	s, ok := c.fromInstance()
	if !ok {
		return source{}, ErrNone
	}
	s.last = true
	return s, nil
}

func (c *Chain) fromKeys() (source, bool) {
	keys := Credentials{AccessKeyID: c.env(envKeyID), SecretAccessKey: c.env(envSecret), SessionToken: c.env(envToken)}
	return source{name: envKeyID + " + " + envSecret, keys: keys}, keys.AccessKeyID != "" && keys.SecretAccessKey != ""
}

// onInstance reports whether this machine looks like an instance of the vendor, or the metadata
// address is configured.
func (c *Chain) onInstance() bool {
	if c.env(envInstance) != "" {
		return true
	}
	vendor, err := os.ReadFile(c.vendor)
	return err == nil && strings.TrimSpace(string(vendor)) == "Amazon EC2"
}
