package openairesponses

import (
	"context"
	"iter"
	"net/http"
	"os"

	"github.com/parleyrun/parley/providers"
)

// The slugs of the protocols.
const (
	API      = "openai-responses"
	APIAzure = "azure-openai-responses"
	APICodex = "openai-codex-responses"
)

// Options configures a protocol. Nil and every zero field are valid.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means sse.DefaultMaxEventBytes. The
	// last event repeats the whole response.
	MaxEventBytes int
	// Getenv reads the environment for NewAzure; nil means os.Getenv.
	Getenv func(name string) string
}

func (o *Options) orDefault() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Getenv == nil {
		out.Getenv = os.Getenv
	}
	return out
}

// New returns the protocol of API over HTTP. Its Close closes idle connections.
func New(o *Options) *providers.HTTP { return newHTTP(NewCodec(o), o) }

// Register registers the three protocols with a registry.
func Register(r *providers.Registry, o *Options) {
	r.RegisterProtocol(API, New(o))
	r.RegisterProtocol(APIAzure, NewAzure(o))
	r.RegisterProtocol(APICodex, NewCodex(o))
}

// NewCodec returns the codec of API only, for other transports. It ignores Options.Client.
func NewCodec(o *Options) providers.Codec {
	return codec{variant: openAI{}, maxEventBytes: o.orDefault().MaxEventBytes}
}

func newHTTP(c providers.Codec, o *Options) *providers.HTTP {
	return providers.NewHTTP(c, &providers.HTTPOptions{Client: o.orDefault().Client})
}

type codec struct {
	variant
	maxEventBytes int
}

// variant contains the differences between the slugs.
type variant interface {
	// address returns the path of a request and completes its header.
	address(m providers.Model, o providers.Options, h http.Header) (path string, err error)
	// finish adjusts the body built by the core.
	finish(b *body, m providers.Model, req providers.Request, o providers.Options)
}

// openAI is the variant of API.
type openAI struct{}

func (openAI) address(m providers.Model, o providers.Options, h http.Header) (string, error) {
	providers.SetBearer(h, m, o.APIKey)
	sessionHeaders(h, m, o)
	return "/responses", nil
}

// sessionHeaders sets the session affinity headers.
func sessionHeaders(h http.Header, m providers.Model, o providers.Options) {
	key, format := providers.SessionKey(o), m.Compat.SessionAffinityFormat
	if key == "" {
		return
	}
	switch {
	case format == providers.AffinityOpenRouter:
		h.Set("X-Session-Id", key)
	case format == providers.AffinityOpenAINoSession, format == "" && m.Provider == providers.Copilot:
		h.Set("X-Client-Request-Id", key)
	default:
		h.Set("Session-Id", key)
		h.Set("X-Client-Request-Id", key)
	}
}

func (openAI) finish(b *body, m providers.Model, req providers.Request, _ providers.Options) {
	b.Store = m.StoreResponses
	if providers.LongCache(m) && m.Compat.SupportsExplicitPromptCacheMode.Or(false) {
		b.PromptCache = &cacheOptions{TTL: "12h"}
	} else if providers.LongCache(m) {
		b.PromptCacheKept = "24h"
	}
	b.systemFirst(m, req)
}

// located is a protocol that completes the base URL of a model before a call.
type located struct {
	*providers.HTTP
	locate func(providers.Model) (providers.Model, error)
}

// Locate implements providers.Locator.
func (l *located) Locate(m providers.Model, _ providers.Options) (string, error) {
	at, err := l.locate(m)
	return at.BaseURL, err
}

// Stream implements providers.Protocol.
func (l *located) Stream(ctx context.Context, m providers.Model, req providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		at, err := l.locate(m)
		if err != nil {
			yield(nil, &providers.Error{Kind: providers.KindUnresolved, Provider: m.Provider, Err: err})
			return
		}
		l.HTTP.Stream(ctx, at, req, o)(yield)
	}
}
