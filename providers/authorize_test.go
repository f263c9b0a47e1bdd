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

// TestAuthorize completes requests after the codec did, and sees what will be sent.
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
