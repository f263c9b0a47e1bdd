package googlegenerativeai

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/parleyrun/parley/providers"
)

// VertexURL is where a model of APIVertex is called.
func VertexURL(m providers.Model, o providers.Options, getenv func(string) string) (string, error) {
	v := &vertex{getenv: getenv}
	m, err := v.locate(m, o)
	return strings.TrimRight(m.BaseURL, "/") + codec{resource: vertexResource}.address(m, o, http.Header{}), err
}

// Tokens hands out access tokens.
type Tokens struct{ source *tokenSource }

// NewTokens returns Tokens that are got by fetch, which says how long they last.
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

// Close ends what is under way.
func (t *Tokens) Close() { t.source.close() }
