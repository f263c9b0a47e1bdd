package providers_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// covers: providers/91, providers/92, providers/93, providers/94, providers/100
func TestSetProvider(t *testing.T) {
	r := registry(t, nil, nil)
	err := r.SetProvider(&providers.Provider{
		ID: "acme", BaseURL: "http://own:8080/", Headers: map[string]string{"x-a": "provider", "X-B": "provider"},
		Models: []providers.CatalogModel{
			{ID: "big", API: "api-1", ContextWindow: 9, MaxTokens: 8, Reasoning: true, Headers: map[string]string{"X-A": "model"}, Compat: providers.Compat{MaxTokensField: "m"}},
			{ID: "far", API: "api-2", BaseURL: "http://far/", Input: []string{"text", "image"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]providers.Model{
		"acme/big": {
			ID: "big", API: "api-1", BaseURL: "http://own:8080/", Headers: map[string]string{"X-A": "model", "X-B": "provider"},
			ContextWindow: 9, MaxTokens: 8, Reasoning: true, Input: []string{"text"}, Compat: providers.Compat{MaxTokensField: "m"},
			Telemetry: providers.Telemetry{ProviderName: "acme", ServerAddress: "own", ServerPort: 8080},
		},
		"acme/far": {
			ID: "far", API: "api-2", BaseURL: "http://far/", Headers: map[string]string{"X-A": "provider", "X-B": "provider"}, Input: []string{"text", "image"},
			Telemetry: providers.Telemetry{ProviderName: "acme", ServerAddress: "far"},
		},
	} {
		want.Provider = "acme"
		got, err := r.Resolve(spec)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", spec, err, diff)
		}
	}
	// The catalog has both; a Provider has only listed models.
	for spec, want := range map[string]string{"acme/org/big": "listed: big, far", "acme/first": "listed: big, far", "acme/": "has no model id"} {
		if _, err := r.Resolve(spec); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", spec, err, want)
		}
	}
	if err := r.RegisterProvider("acme", providers.Registration{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve("acme/org/big"); err != nil {
		t.Errorf("registration over a provider: got %v", err)
	}
	if err := r.SetProvider(&providers.Provider{ID: "acme"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve("acme/big"); !errors.Is(err, providers.ErrUnknownModel) || !strings.HasSuffix(err.Error(), "listed: (none)") {
		t.Errorf("provider over another: got %v", err)
	}
}

// covers: providers/94
func TestSetProviderListsFewModels(t *testing.T) {
	p := &providers.Provider{ID: "p"}
	for i := range 10 {
		p.Models = append(p.Models, providers.CatalogModel{ID: fmt.Sprint("m", i), API: "a"})
	}
	r := registry(t, nil, nil)
	if err := r.SetProvider(p); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve("p/m"); err == nil || !strings.HasSuffix(err.Error(), "listed: m0, m1, m2, m3, m4, m5, m6, m7, … (10 total)") {
		t.Errorf("got %v", err)
	}
}

// covers: providers/6, providers/95
func TestSetProviderErrors(t *testing.T) {
	for want, p := range map[string]providers.Provider{
		"must not be empty": {},
		"contain a slash":   {ID: "a/b"},
		"2 has no id":       {ID: "p", Models: []providers.CatalogModel{{ID: "m", API: "a"}, {API: "a"}}},
		`"m" has no ap`:     {ID: "p", Models: []providers.CatalogModel{{ID: "m"}}},
		`"m" is listed`:     {ID: "p", Models: []providers.CatalogModel{{ID: "m", API: "a"}, {ID: "m", API: "b"}}},
	} {
		var typed *providers.ProviderRegistrationError
		err := registry(t, nil, nil).SetProvider(&p)
		if !errors.As(err, &typed) || typed.ProviderID != p.ID || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// TestProviderCalls: a Provider's own protocol overrides the registry's. Authorize runs for each call.
// covers: providers/5, providers/96, providers/97, providers/98
func TestProviderCalls(t *testing.T) {
	env, calls := map[string]string{"ACME_API_KEY": "env"}, 0
	r := registry(t, env, nil)
	r.RegisterAPIProvider("api-1", echo{"registry"})
	r.RegisterAPIProvider("api-2", echo{"registry"})
	p := &providers.Provider{
		ID: "acme", BaseURL: "http://b/", Protocols: map[string]providers.Protocol{"api-1": echo{"own"}},
		Models: []providers.CatalogModel{{ID: "one", API: "api-1"}, {ID: "two", API: "api-2"}, {ID: "three", API: "api-3"}},
	}
	if err := r.SetProvider(p); err != nil {
		t.Fatal(err)
	}
	wantCall := func(spec string, o providers.Options, want string) {
		t.Helper()
		if got := textOf(t, r.Stream(t.Context(), spec, providers.Request{}, o)); got != want {
			t.Errorf("%s: got %q, want %q", spec, got, want)
		}
	}
	wantCall("acme/one", providers.Options{}, "own acme/one http://b/ env")
	wantCall("acme/two", providers.Options{}, "registry acme/two http://b/ env")
	for _, err := range r.Stream(t.Context(), "acme/three", providers.Request{}, providers.Options{}) {
		if !errors.Is(err, providers.ErrUnknownProtocol) {
			t.Errorf("acme/three: got %v", err)
		}
	}

	with := *p
	with.Authorize = func(_ context.Context, m providers.Model) (providers.Auth, error) {
		calls++
		return providers.Auth{APIKey: fmt.Sprintf(" token-%d of %s\n", calls, m.ID), Bearer: true, BaseURL: "http://auth/"}, nil
	}
	if err := r.SetProvider(&with); err != nil {
		t.Fatal(err)
	}
	wantCall("acme/one", providers.Options{}, "own acme/one http://auth/ Bearer token-1 of one")
	wantCall("acme/one", providers.Options{}, "own acme/one http://auth/ Bearer token-2 of one")
	wantCall("acme/one", providers.Options{APIKey: "call"}, "own acme/one http://b/ call")
	if got := r.Credentials(providers.Model{Provider: "acme"}); got != providers.FromRegistration {
		t.Errorf("the credentials are said to be of %q", got)
	}
}

// covers: providers/99
func TestProviderThatCannotAuthorize(t *testing.T) {
	r := registry(t, nil, nil)
	r.RegisterProtocol("api-1", echo{"p"})
	why, cancelled := errors.New("no token"), errors.New("cancelled")
	for _, tt := range []struct {
		cause error
		kind  providers.ErrorKind
		want  error
	}{{nil, providers.KindAuth, why}, {cancelled, providers.KindAborted, cancelled}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := r.SetProvider(&providers.Provider{
			ID: "p", BaseURL: "http://b/", Models: []providers.CatalogModel{{ID: "m", API: "api-1"}},
			Authorize: func(context.Context, providers.Model) (providers.Auth, error) {
				if tt.cause != nil {
					cancel(tt.cause)
				}
				return providers.Auth{}, why
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range r.Stream(ctx, "p/m", providers.Request{}, providers.Options{}) {
			var e *providers.Error
			if !errors.As(err, &e) || e.Kind != tt.kind || e.Provider != "p" || !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %s", err, tt.kind)
			}
		}
		cancel(nil)
	}
}

// telltale fails with the headers of the call in its message.
type telltale struct{}

func (telltale) Stream(_ context.Context, m providers.Model, _ providers.Request, _ providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		yield(nil, &providers.Error{Kind: providers.KindAuth, Err: fmt.Errorf("headers %v", m.Headers)})
	}
}

// covers: providers/97, providers/203
func TestProviderHeadersAreSecrets(t *testing.T) {
	r := registry(t, nil, nil)
	err := r.SetProvider(&providers.Provider{
		ID: "p", BaseURL: "http://b/", Headers: map[string]string{"X-Api-Key": "of-provider"}, Models: []providers.CatalogModel{{ID: "m", API: "api-1"}},
		Authorize: func(context.Context, providers.Model) (providers.Auth, error) {
			return providers.Auth{Headers: map[string]string{"authorization": "Bearer of-call"}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Secrets(); len(got) != 1 || got[0] != "of-provider" {
		t.Errorf("the secrets are %q", got)
	}
	r.RegisterProtocol("api-1", telltale{})
	for _, err := range r.Stream(t.Context(), "p/m", providers.Request{}, providers.Options{}) {
		if err == nil || strings.Contains(err.Error(), "of-call") || strings.Contains(err.Error(), "of-provider") || strings.Count(err.Error(), "[secret]") != 2 {
			t.Errorf("got %v", err)
		}
	}
}
