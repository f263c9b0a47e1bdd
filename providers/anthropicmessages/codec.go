package anthropicmessages

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/internal/claude"
)

// API is the slug of the protocol.
const API = "anthropic-messages"

// DefaultMaxTokens is the output limit, in tokens, if neither the caller nor the model has one. Every
// current model of the format accepts it.
const DefaultMaxTokens = claude.DefaultAnswer

// Options configures the protocol. Nil and every zero field are valid.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means sse.DefaultMaxEventBytes.
	MaxEventBytes int
	// Binding encodes requests for the binding of an edge platform: without model name and cache
	// markers, and with the system prompt as one text.
	Binding bool
}

// New returns the protocol over HTTP. Its Close closes idle connections.
func New(o *Options) *providers.HTTP {
	if o == nil {
		o = &Options{}
	}
	return providers.NewHTTP(NewCodec(o), &providers.HTTPOptions{Client: o.Client})
}

// Register registers the protocol with a registry.
func Register(r *providers.Registry, o *Options) { r.RegisterProtocol(API, New(o)) }

// NewCodec returns the codec only, for other transports. It ignores Options.Client.
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
