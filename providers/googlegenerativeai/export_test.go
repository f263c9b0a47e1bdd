package googlegenerativeai

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers"
)

// VertexURL returns the URL of a model of APIVertex.
func VertexURL(m providers.Model, o providers.Options, getenv func(string) string) (string, error) {
	v := &vertex{getenv: getenv}
	m, err := v.locate(m, o)
	return strings.TrimRight(m.BaseURL, "/") + codec{resource: vertexResource}.address(m, o, http.Header{}), err
}

// Tokens exposes the token source.
type Tokens struct{ source *tokenSource }

// NewTokens returns Tokens that fetch obtains, with their lifetime.
func NewTokens(fetch func(context.Context) (value string, lasts time.Duration, err error)) *Tokens {
	return &Tokens{&tokenSource{fetch: func(ctx context.Context) (token, error) {
		value, lasts, err := fetch(ctx)
		return token{value: value, expires: time.Now().Add(lasts)}, err
	}}}
}

// Get returns a token.
func (t *Tokens) Get(ctx context.Context) (string, error) {
	got, err := t.source.get(ctx)
	return got.value, err
}

// Close ends a request in progress.
func (t *Tokens) Close() { t.source.close() }
