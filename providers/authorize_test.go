package providers_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestAuthorize checks that Authorize runs after the codec and sees the final body.
func TestAuthorize(t *testing.T) {
	refused := errors.New("no token")
	for name, tt := range map[string]struct {
		err  error
		kind providers.ErrorKind
	}{
		"signed":   {},
		"refused":  {refused, providers.KindAuth},
		"own kind": {&providers.Error{Kind: providers.KindNetwork, Err: refused}, providers.KindNetwork},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent++
				body, _ := io.ReadAll(r.Body)
				if sum := fmt.Sprintf("%x", sha256.Sum256(body)); r.Header.Get("Authorization") != "token-of-"+sum {
					http.Error(w, `{"error":"not signed"}`, http.StatusUnauthorized)
					return
				}
				http.Error(w, `{"error":"the token `+r.Header.Get("Authorization")+` is too good"}`, http.StatusBadRequest)
			}))
			defer server.Close()
			p := providers.NewHTTP(plainCodec{}, &providers.HTTPOptions{Authorize: func(ctx context.Context, r *http.Request, m providers.Model, o providers.Options) error {
				if m.Provider != "p" || o.APIKey != "key" || ctx.Err() != nil {
					t.Errorf("got %+v, %+v", m, o)
				}
				if tt.err != nil {
					return tt.err
				}
				body, err := r.GetBody()
				if err != nil {
					return err
				}
				defer body.Close()
				sum := sha256.New()
				if _, err := io.Copy(sum, body); err != nil {
					return err
				}
				r.Header.Set("Authorization", fmt.Sprintf("token-of-%x", sum.Sum(nil)))
				return nil
			}})
			defer p.Close()
			m := providers.Model{Provider: "p", ID: "m", BaseURL: server.URL}
			_, failure, broken := providertest.Collect(p.Stream(t.Context(), m, providers.Request{}, providers.Options{APIKey: "key"}))
			if broken != nil {
				t.Fatal(broken)
			}
			if tt.err != nil {
				if failure == nil || failure.Kind != tt.kind || !errors.Is(failure, refused) || sent != 0 {
					t.Errorf("got %v after %d requests", failure, sent)
				}
				return
			}
			if failure == nil || failure.Kind != providers.KindInvalidRequest || strings.Contains(string(failure.Body), "token-of-") {
				t.Errorf("got %v, %s", failure, failure.Body)
			}
		})
	}
}

// TestRefused checks that an error is retryable if the next request would use other credentials.
func TestRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		status           int
		other, retryable bool
	}{
		"others":         {http.StatusForbidden, true, true},
		"no others":      {http.StatusForbidden, false, false},
		"another reason": {http.StatusBadRequest, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Should-Retry", "false")
				http.Error(w, `{"error":"no"}`, tt.status)
			}))
			defer server.Close()
			p := providers.NewHTTP(plainCodec{}, &providers.HTTPOptions{
				Authorize: func(_ context.Context, r *http.Request, _ providers.Model, _ providers.Options) error {
					r.Header.Set("Authorization", "token")
					return nil
				},
				Refused: func(r *http.Request, e *providers.Error) bool {
					if r.Header.Get("Authorization") != "token" || e.Kind != providers.KindAuth {
						t.Errorf("got credentials call for %v of %v", e, r.Header)
					}
					return tt.other
				},
			})
			defer p.Close()
			_, failure, broken := providertest.Collect(p.Stream(t.Context(), providers.Model{Provider: "p", ID: "m", BaseURL: server.URL}, providers.Request{}, providers.Options{}))
			if broken != nil || failure == nil || failure.Retryable() != tt.retryable {
				t.Errorf("got %v, %v", failure, broken)
			}
		})
	}
}

// flaky is an image that can be read only once.
type flaky struct{ opened int }

// Size implements providers.Content.
func (*flaky) Size() int64 { return 3 }

// Open implements providers.Content.
func (f *flaky) Open(context.Context) (io.ReadCloser, error) {
	if f.opened++; f.opened > 1 {
		return nil, providers.ErrUnavailable
	}
	return io.NopCloser(strings.NewReader("abc")), nil
}

type shower struct{ providers.Codec }

// Encode implements providers.Codec.
func (shower) Encode(_ providers.Model, req providers.Request, _ providers.Options) (*providers.Call, error) {
	var e providers.BodyEncoder
	body, err := e.Encode(e.Base64(req.Messages[0].Parts[0].(providers.Image)))
	return &providers.Call{Path: "/", Body: body}, err
}

// TestImageFailureAfterSigning reads an image for signing that fails while the request is sent. The
// call fails with that error.
func TestImageFailureAfterSigning(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	p := providers.NewHTTP(shower{}, &providers.HTTPOptions{Authorize: func(_ context.Context, r *http.Request, _ providers.Model, _ providers.Options) error {
		if r.Body != nil {
			t.Error("got an open body before the request")
		}
		body, err := r.GetBody()
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.Copy(io.Discard, body)
		return err
	}})
	defer p.Close()
	m := providers.Model{Provider: "p", ID: "m", BaseURL: server.URL, Input: []string{providers.InputImage}}
	_, failure, broken := providertest.Collect(p.Stream(t.Context(), m, providers.Request{Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Image{MimeType: "image/png", Content: &flaky{}}}},
	}}, providers.Options{}))
	if broken != nil || failure == nil || failure.Kind != providers.KindImageUnavailable {
		t.Errorf("got %v, %v", failure, broken)
	}
}
