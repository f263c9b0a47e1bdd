package openaicompletions

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
)

// API is the slug of the protocol.
const API = "openai-completions"

// Names of the output limit, for Options.MaxTokensField.
const (
	FieldMaxTokens           = "max_tokens"
	FieldMaxCompletionTokens = "max_completion_tokens"
)

// Options configures the protocol. Nil and every zero field are valid.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means sse.DefaultMaxEventBytes.
	MaxEventBytes int
	// MaxTokensField is FieldMaxTokens or FieldMaxCompletionTokens; if it is empty the host decides.
	MaxTokensField string
	// Binding encodes requests for the binding of an edge platform. They do not contain the model, and
	// only members that every model on the platform accepts.
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
	return codec{maxEventBytes: o.MaxEventBytes, maxTokensField: o.MaxTokensField, binding: o.Binding, vendors: vendors()}
}

type codec struct {
	maxEventBytes  int
	maxTokensField string
	binding        bool
	vendors        []vendor
}
