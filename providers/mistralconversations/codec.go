package mistralconversations

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
)

// API is the slug of the protocol.
const API = "mistral-conversations"

// Options configures the protocol. Nil and every zero field are valid.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means sse.DefaultMaxEventBytes.
	MaxEventBytes int
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
	return codec{maxEventBytes: o.MaxEventBytes}
}

type codec struct{ maxEventBytes int }
