package anthropicmessages

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/internal/claude"
)

// API is the slug to register the protocol under.
const API = "anthropic-messages"

// DefaultMaxTokens is the output limit, in tokens, if neither the caller nor
// the model has one: every current model of the format takes it.
const DefaultMaxTokens = claude.DefaultAnswer

// Options changes the protocol. Nil and every zero field work.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means
	// sse.DefaultMaxEventBytes.
	MaxEventBytes int
	// Binding makes requests for the binding of an edge platform: they do not name the
	// model, the system prompt is one text, and nothing is marked for a prompt cache.
	Binding bool
}

// New returns the protocol over HTTP. Its Close drops idle connections.
func New(o *Options) *providers.HTTP {
	if o == nil {
		o = &Options{}
	}
	return providers.NewHTTP(NewCodec(o), &providers.HTTPOptions{Client: o.Client})
}

// Register lets the models of a registry be called in this format.
func Register(r *providers.Registry, o *Options) { r.RegisterProtocol(API, New(o)) }

// NewCodec returns the codec alone, for other transports. It ignores
// Options.Client.
func NewCodec(o *Options) providers.Codec {
	if o == nil {
		o = &Options{}
	}
	return codec{maxEventBytes: o.MaxEventBytes, binding: o.Binding}
}

type codec struct {
	maxEventBytes int
	binding       bool
}
