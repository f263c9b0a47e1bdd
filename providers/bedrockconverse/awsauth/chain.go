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

// Options changes a Chain. Nil and every zero field work.
type Options struct {
	// Getenv looks up variables; nil means os.Getenv.
	Getenv func(name string) string
	// Client asks the services that lend credentials. Nil means a client of its own, which
	// asks the services of this machine without a proxy.
	Client *http.Client
	// Vendor is the file in which the machine says who made it; empty means where Linux
	// has it. It tells whether there is an instance whose metadata can be asked.
	Vendor string
}

// ErrNone says that credentials are nowhere.
var ErrNone = errors.New("no AWS credentials found: set AWS_BEARER_TOKEN_BEDROCK, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, " +
	"or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN")

// SourceError reports a source that has no credentials to give.
type SourceError struct {
	// Source is what Chain.Source calls it.
	Source string
	// Temporary tells that the same question may be answered later.
	Temporary bool
	Err       error
}

// Error names the source.
func (e *SourceError) Error() string {
	return fmt.Sprintf("get AWS credentials from %s: %v", e.Source, e.Err)
}

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

// UnsupportedError reports a profile with a setting that needs more than files and services:
// a program, a browser, or a person with a device.
type UnsupportedError struct{ Profile, Setting string }

// Error says what to do.
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

// NewChain returns a Chain over the environment. It looks at nothing yet.
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

// maxTime is how long finding credentials may take, all questions together.
const maxTime = 20 * time.Second

// Credentials returns the credentials to sign a request to a region with. Its error is that
// of ctx, ErrNone, or a *SourceError, which may be over an *UnsupportedError.
func (c *Chain) Credentials(ctx context.Context, region string) (Credentials, error) {
	s, err := c.source(region)
	switch {
	case errors.Is(err, ErrNone):
		return Credentials{}, err
	case err != nil:
		return Credentials{}, &SourceError{Source: s.name, Err: err}
	}
	if s.lender == nil {
		return s.keys, nil
	}
	return c.cache.get(ctx, s.id, func(ctx context.Context) (Credentials, error) {
		ctx, cancel := context.WithTimeout(ctx, maxTime)
		defer cancel()
		lent, err := s.lender(ctx)
		if err != nil {
			return Credentials{}, c.failed(s, err)
		}
		return lent, nil
	})
}

// Expired tells that the vendor takes the credentials no more that r is signed with. They are
// dropped if a service has lent them, and Expired reports whether it is asked for others: what
// stands in the environment or in a file stays as it is.
func (c *Chain) Expired(r *http.Request) bool { return c.cache.drop(r.Header.Get(tokenHeader)) }

// failed returns the error of a source that was asked.
func (c *Chain) failed(s source, err error) error {
	var answered *answerError
	var unheard *unheardError
	temporary := errors.As(err, &unheard) || errors.As(err, &answered) && (answered.status >= 500 || answered.status == http.StatusTooManyRequests)
	if s.last && !c.onInstance() {
		return fmt.Errorf("%w, or run where the metadata of an instance has them: %w", ErrNone, err)
	}
	return &SourceError{Source: s.name, Temporary: temporary, Err: err}
}

// Source says where credentials would be looked for now: variables joined by " + ", a
// profile, or the metadata of the instance; "" for nowhere. It contacts nobody.
func (c *Chain) Source() string {
	s, _ := c.source("")
	if s.last && !c.onInstance() {
		return ""
	}
	return s.name
}

// source is where credentials are.
type source struct {
	name string
	// keys are the credentials, unless a lender has them.
	keys Credentials
	// lender asks for them; id stands for what they depend on.
	lender func(context.Context) (Credentials, error)
	id     string
	// last is the source that there is without anything that names it.
	last bool
}

// Variables of the sources.
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

// source returns the first source that there is. With an error, it has the name of the one
// that the error is about.
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
			return source{name: envIdentityFile}, fmt.Errorf("%s is not set; it names the role to take", envRole)
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

// onInstance reports whether this machine looks like one of the vendor's, or somebody has
// said where its metadata is.
func (c *Chain) onInstance() bool {
	if c.env(envInstance) != "" {
		return true
	}
	vendor, err := os.ReadFile(c.vendor)
	return err == nil && strings.TrimSpace(string(vendor)) == "Amazon EC2"
}
