package bedrockconverse

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse/awsauth"
)

// API is the slug of the protocol.
const API = "bedrock-converse-stream"

// Environment variables in addition to those of awsauth.
const (
	envRegion        = "AWS_REGION"
	envDefaultRegion = "AWS_DEFAULT_REGION"
	envFIPS          = "AWS_USE_FIPS_ENDPOINT"
	envSkipAuth      = "AWS_BEDROCK_SKIP_AUTH"
	envForceCache    = "AWS_BEDROCK_FORCE_CACHE"
)

// Options configures the protocol. Nil and every zero field are valid.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// Credentials finds the credentials for signing; nil means a new chain over Getenv.
	Credentials *awsauth.Chain
	// MaxMessageBytes limits one message of the stream, in bytes; 0 means
	// eventstream.DefaultMaxMessageBytes.
	MaxMessageBytes int
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(name string) string
}

// New returns the protocol over HTTP. Its Close closes idle connections.
func New(o *Options) *providers.HTTP {
	if o == nil {
		o = &Options{}
	}
	a := authorizer{env: environment(o.Getenv), chain: o.Credentials}
	if a.chain == nil {
		a.chain = awsauth.NewChain(&awsauth.Options{Getenv: o.Getenv})
	}
	return providers.NewHTTP(NewCodec(o), &providers.HTTPOptions{Client: o.Client, Authorize: a.authorize, Refused: a.refused, FindCredentials: a.find, Locate: a.env.locate})
}

// Register registers the protocol with a registry.
func Register(r *providers.Registry, o *Options) { r.RegisterProtocol(API, New(o)) }

// NewCodec returns the codec only, for other transports with their own authorization. It ignores
// Options.Client and Options.Credentials.
func NewCodec(o *Options) providers.Codec {
	if o == nil {
		o = &Options{}
	}
	return codec{env: environment(o.Getenv), maxMessageBytes: o.MaxMessageBytes}
}

type codec struct {
	env             env
	maxMessageBytes int
}

// env reads environment variables and trims them.
type env func(name string) string

func environment(getenv func(string) string) env {
	if getenv == nil {
		getenv = os.Getenv
	}
	return func(name string) string { return strings.TrimSpace(getenv(name)) }
}

// on reports whether a variable enables an option.
func (e env) on(name string) bool {
	v := e(name)
	return v == "1" || strings.EqualFold(v, "true")
}

// authorizer completes requests.
type authorizer struct {
	env   env
	chain *awsauth.Chain
}

// find implements providers.HTTPOptions.FindCredentials.
func (a authorizer) find(providers.Model) string {
	if a.env.on(envSkipAuth) {
		return envSkipAuth
	}
	return a.chain.Source()
}

// authorize implements providers.HTTPOptions.Authorize. It also changes the host to the region of the
// call.
func (a authorizer) authorize(ctx context.Context, r *http.Request, m providers.Model, o providers.Options) error {
	region, err := a.env.move(r, m)
	switch {
	case err != nil:
		return err
	case a.env.on(envSkipAuth):
		return nil
	case o.APIKey != "" || r.Header.Get("Authorization") != "": // the codec or the model has set the authorization
		return nil
	}
	keys, err := a.chain.Credentials(ctx, region)
	if err != nil {
		var of *awsauth.SourceError
		if errors.As(err, &of) && of.Temporary {
			return &providers.Error{Kind: providers.KindNetwork, Err: err}
		}
		return err
	}
	hash, err := hashBody(r)
	if err != nil {
		return err
	}
	awsauth.Sign(r, keys, region, "bedrock", hash, time.Now())
	return nil
}

// refused implements providers.HTTPOptions.Refused: credentials may be revoked before they expire.
func (a authorizer) refused(r *http.Request, e *providers.Error) bool {
	var message *providers.VendorError
	expired := errors.As(e, &message) && (message.Code == "ExpiredTokenException" || message.Code == "ExpiredToken")
	return expired && a.chain.Expired(r)
}

// hashBody returns the SHA-256 of the request body.
func hashBody(r *http.Request) (hash [sha256.Size]byte, err error) {
	body, err := r.GetBody()
	if err != nil {
		return hash, fmt.Errorf("hash body: %w", err)
	}
	defer body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, body); err != nil {
		return hash, fmt.Errorf("hash body: %w", err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
