package googlegenerativeai

import (
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// The slugs of the protocols.
const (
	API       = "google-generative-ai"
	APIVertex = "google-vertex"
)

const keyHeader = "X-Goog-Api-Key"

// Options configures a protocol. Nil and every zero field are valid.
type Options struct {
	// Client makes the requests, see providers.HTTPOptions, and the token requests of NewVertex.
	Client *http.Client
	// MaxEventBytes limits one event of the stream, in bytes; 0 means sse.DefaultMaxEventBytes.
	MaxEventBytes int
	// Getenv reads the environment for NewVertex; nil means os.Getenv.
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
func New(o *Options) *providers.HTTP {
	return providers.NewHTTP(NewCodec(o), &providers.HTTPOptions{Client: o.orDefault().Client})
}

// Register registers the protocols of Gemini and Vertex AI with a registry.
func Register(r *providers.Registry, o *Options) {
	r.RegisterProtocol(API, New(o))
	r.RegisterProtocol(APIVertex, NewVertex(o))
}

// NewCodec returns the codec of API only, for other transports. It ignores Options.Client.
func NewCodec(o *Options) providers.Codec {
	return codec{resource: func(id string) string { return collection("models", id) }, maxEventBytes: o.orDefault().MaxEventBytes}
}

// codec is the shared core. Variants differ in model names.
type codec struct {
	resource      func(id string) string
	maxEventBytes int
}

// address returns the path of a request and sets the key header.
func (c codec) address(m providers.Model, o providers.Options, h http.Header) string {
	switch {
	case o.Bearer || providers.OwnBearer(m):
		providers.SetBearer(h, m, o.APIKey)
	case o.APIKey != "":
		h.Set(keyHeader, o.APIKey)
	}
	return "/" + c.resource(m.ID) + ":streamGenerateContent?alt=sse"
}

// collection returns the resource name of a model, which may include its collection.
func collection(name, id string) string {
	if !strings.Contains(id, "/") {
		id = name + "/" + id
	}
	return escaped(id)
}

// escaped escapes each element of a path.
func escaped(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		elements[i] = url.PathEscape(e)
	}
	return strings.Join(elements, "/")
}
