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

// TestErrorExplain checks that explanations contain party, failure and remedy, and no vendor text.
func TestErrorExplain(t *testing.T) {
	vendor := &providers.VendorError{Code: "c", Message: "SECRET WORDS"}
	for _, tt := range []struct {
		e    providers.Error
		want string
	}{
		{providers.Error{Kind: providers.KindAuth, Status: 401, Key: "OPENAI_API_KEY", Err: vendor}, "openai returned 401: the API key was rejected; check OPENAI_API_KEY."},
		{providers.Error{Kind: providers.KindAuth, Status: 403, Key: providers.FromRegistration}, "openai returned 403: the API key was rejected; check the provider's apiKey in the configuration."},
		{providers.Error{Kind: providers.KindAuth, Status: 401, Wants: []string{"A", "B"}}, "openai returned 401: an API key is required; set A or B."},
		{providers.Error{Kind: providers.KindAuth}, "openai: the credentials were rejected; check them."},
		{providers.Error{Kind: providers.KindQuota, Status: 429, Err: vendor}, "openai returned 429: the account has no credit left; check its billing."},
		{providers.Error{Kind: providers.KindOverloaded, Status: 503, Err: vendor}, "openai returned 503: the service is unavailable; retry later."},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 404, Err: vendor}, "openai returned 404: the model or the address is unknown; check the model name and baseUrl."},
		{providers.Error{Kind: providers.KindInvalidRequest, Status: 302}, "openai returned 302: it redirects to another address; check its baseUrl."},
		{providers.Error{Kind: providers.KindNetwork, Err: errors.New("dial tcp 10.0.0.1")}, "openai: the connection failed; check the network and baseUrl."},
		{providers.Error{Kind: providers.KindProtocol, Status: 200, Err: &providers.StreamTypeError{MediaType: "text/html"}}, "openai returned text/html instead of an event stream; check its baseUrl."},
		{providers.Error{Kind: providers.KindUnresolved, Err: &providers.ModelError{Spec: "openai/x", Err: providers.ErrUnlistedModel}}, `The model cannot be called: "openai/x" is unknown; check the model name.`},
		{providers.Error{Kind: providers.KindUnresolved, Err: &providers.ModelError{Spec: "openai/x", Err: &providers.VariableError{Name: "HOST"}}}, "The model cannot be called: baseUrl needs the variable HOST; set it."},
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
		if got := e.Explain(); strings.Contains(got, "SECRET") || strings.Contains(got, "the call failed") || !strings.HasSuffix(got, ".") {
			t.Errorf("%s is explained as %q", kind, got)
		}
	}
}

// TestPageIsNoStream detects an HTML page by its media type.
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
	if err != nil && !strings.Contains(err.Error(), "response is text/html instead of an event stream; check baseUrl") {
		t.Errorf("got %q", err)
	}
}

// refusing is a protocol whose vendor rejects every key.
type refusing struct{ err *providers.Error }

// Stream implements providers.Protocol.
func (r refusing) Stream(context.Context, providers.Model, providers.Request, providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) { yield(nil, r.err) }
}

// TestRejectedKeySource checks that the error contains the source of the key but not the key.
func TestRejectedKeySource(t *testing.T) {
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
	if got := ask(); !strings.HasSuffix(got, "an API key is required; set VENDOR_KEY or OTHER_KEY") {
		t.Errorf("without a key: %q", got)
	}
	env["OTHER_KEY"] = "sk-secret"
	if got := ask(); !strings.HasSuffix(got, "the API key was rejected; check OTHER_KEY") || strings.Contains(got, "sk-secret") {
		t.Errorf("with a wrong key: %q", got)
	}
	if shared.Key != "" || shared.Wants != nil {
		t.Error("got a modified error of the protocol")
	}
}
