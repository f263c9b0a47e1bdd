package providers_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// TestErrorsExplainThemselves: who failed, how, and what to do, without a vendor's words.
func TestErrorsExplainThemselves(t *testing.T) {
	vendor := &providers.VendorError{Code: "c", Message: "SECRET WORDS"}
	for _, tt := range []struct {
		e    providers.Error
		want string
	}{
		{providers.Error{Kind: providers.KindAuth, Status: 401, Key: "OPENAI_API_KEY", Err: vendor}, "openai answered 401: it refuses the API key; check OPENAI_API_KEY."},
		{providers.Error{Kind: providers.KindAuth, Status: 403, Key: providers.FromRegistration}, "openai answered 403: it refuses the API key; check that of its provider in the configuration."},
		{providers.Error{Kind: providers.KindAuth, Status: 401, Wants: []string{"A", "B"}}, "openai answered 401: it wants an API key; set A or B."},
		{providers.Error{Kind: providers.KindAuth}, "openai: it refuses the credentials; check them."},
		{providers.Error{Kind: providers.KindQuota, Status: 429, Err: vendor}, "openai answered 429: the account has no credit left; check its billing."},
		{providers.Error{Kind: providers.KindOverloaded, Status: 503, Err: vendor}, "openai answered 503: it cannot answer just now."},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 404, Err: vendor}, "openai answered 404: it knows no such model, or no such address; check the name of the model and baseUrl."},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 302}, "openai answered 302: it is to be asked elsewhere; check its baseUrl."},
		{providers.Error{Kind: providers.KindNetwork, Err: errors.New("dial tcp 10.0.0.1")}, "openai: it cannot be reached, or the connection broke; check the network and baseUrl."},
		{providers.Error{Kind: providers.KindProtocol, Status: 200, Err: &providers.StreamTypeError{MediaType: "text/html"}}, "The answer of openai is not an event stream but text/html; check its baseUrl."},
		{providers.Error{Kind: providers.KindUnresolved, Err: &providers.ModelError{Spec: "openai/x", Err: providers.ErrUnlistedModel}}, `The model cannot be called: "openai/x" is none that is known here; check its name.`},
		{providers.Error{Kind: providers.KindUnresolved, Err: &providers.ModelError{Spec: "openai/x", Err: &providers.VariableError{Name: "HOST"}}}, "The model cannot be called: its address needs HOST; set it."},
	} {
		tt.e.Provider = "openai"
		if got := tt.e.Explain(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.e.Kind, got, tt.want)
		}
	}
	for _, kind := range []providers.ErrorKind{
		providers.KindUnresolved, providers.KindAuth, providers.KindQuota, providers.KindRateLimit, providers.KindOverloaded, providers.KindInvalidRequest,
		providers.KindContextOverflow, providers.KindNetwork, providers.KindTruncated, providers.KindProtocol, providers.KindTooLong,
		providers.KindImageUnavailable, providers.KindImageUnreadable, providers.KindAborted, providers.KindSilent, providers.KindTimeout,
	} {
		e := &providers.Error{Kind: kind, Err: vendor}
		if got := e.Explain(); strings.Contains(got, "SECRET") || strings.Contains(got, "gave no answer") || !strings.HasSuffix(got, ".") {
			t.Errorf("%s is explained as %q", kind, got)
		}
	}
}

// TestPageIsNoStream: the page of a web server is known by its type.
func TestPageIsNoStream(t *testing.T) {
	ask := showing(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!doctype html><title>Welcome</title>"))
	})
	_, err := ask()
	var page *providers.StreamTypeError
	if err == nil || err.Kind != providers.KindProtocol || !errors.As(err, &page) || page.MediaType != "text/html" || !strings.Contains(string(err.Body), "Welcome") {
		t.Errorf("got %v", err)
	}
	if err != nil && !strings.Contains(err.Error(), "response is not an event stream but text/html; check baseUrl") {
		t.Errorf("it says %q", err)
	}
}

// refusing is a protocol whose vendor refuses every key.
type refusing struct{ err *providers.Error }

// Stream implements providers.Protocol.
func (r refusing) Stream(context.Context, providers.Model, providers.Request, providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) { yield(nil, r.err) }
}

// TestRefusedKeyIsNamed: where it was found, not what it is.
func TestRefusedKeyIsNamed(t *testing.T) {
	shared := &providers.Error{Kind: providers.KindAuth, Status: 401, Provider: "vendor"}
	env := map[string]string{}
	reg := providers.NewRegistry(&providers.RegistryOptions{
		Getenv: func(name string) string { return env[name] },
		Catalog: providers.Catalog{"vendor": {
			EnvKeys: []providers.EnvKey{{Name: "VENDOR_KEY"}, {Name: "OTHER_KEY"}},
			Models: func() []providers.CatalogModel {
				return []providers.CatalogModel{{ID: "m", API: "refusing", BaseURL: "http://x"}}
			},
		}},
	})
	reg.RegisterProtocol("refusing", refusing{shared})
	ask := func() string {
		for _, err := range reg.Stream(t.Context(), "vendor/m", providers.Request{}, providers.Options{}) {
			return err.Error()
		}
		return ""
	}
	if got := ask(); !strings.HasSuffix(got, "it wants an API key; set VENDOR_KEY or OTHER_KEY") {
		t.Errorf("without a key: %q", got)
	}
	env["OTHER_KEY"] = "sk-secret"
	if got := ask(); !strings.HasSuffix(got, "it refuses the API key; check OTHER_KEY") || strings.Contains(got, "sk-secret") {
		t.Errorf("with a wrong key: %q", got)
	}
	if shared.Key != "" || shared.Wants != nil {
		t.Error("an error that a protocol hands out was changed")
	}
}
