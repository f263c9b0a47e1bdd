package openaicompletions

import (
	"net/http"

	"github.com/parleyrun/parley/providers"
)

// API is the slug to register the protocol under.
const API = "openai-completions"

// Names of the output limit, for Options.MaxTokensField.
const (
	FieldMaxTokens           = "max_tokens"
	FieldMaxCompletionTokens = "max_completion_tokens"
)

// Options changes the protocol. Nil and every zero field work.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means
	// sse.DefaultMaxEventBytes.
	MaxEventBytes int
	// MaxTokensField is FieldMaxTokens or FieldMaxCompletionTokens; empty means
	// the choice is made by host.
	MaxTokensField string
	// Binding makes requests for the binding of an edge platform: they do not name the
	// model, and beside the messages have what every model there takes.
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
	return codec{maxEventBytes: o.MaxEventBytes, maxTokensField: o.MaxTokensField, binding: o.Binding, vendors: vendors()}
}

type codec struct {
	maxEventBytes  int
	maxTokensField string
	binding        bool
	vendors        []vendor
}
