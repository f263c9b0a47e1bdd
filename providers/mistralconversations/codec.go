package mistralconversations

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
)

// API is the slug to register the protocol under.
const API = "mistral-conversations"

// Options changes the protocol. Nil and every zero field work.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means
	// sse.DefaultMaxEventBytes.
	MaxEventBytes int
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
	return codec{maxEventBytes: o.MaxEventBytes}
}

type codec struct{ maxEventBytes int }
