package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// catalog has one provider whose models differ in everything.
var catalog = providers.Catalog{
	"acme": {
		EnvKeys: []string{"ACME_TOKEN", "ACME_API_KEY"},
		Models: []providers.CatalogModel{
			{ID: "first", API: "api-1", BaseURL: "https://one.acme.example/v1", ContextWindow: 111, Headers: map[string]string{"X-First": "1"}},
			{
				ID: "org/big", API: "api-2", BaseURL: "https://two.acme.example:8443/v2",
				Headers:       map[string]string{"X-A": "catalog", "X-B": "catalog"},
				ContextWindow: 1000, MaxTokens: 100, Reasoning: true, Input: []string{"text", "image"},
				Cost:     providers.Cost{Rates: providers.Rates{Input: 3, Output: 15}},
				Thinking: providers.ThinkingMap{"off": nil, "xhigh": new("extra")},
				Compat:   providers.Compat{SupportsStore: providers.FlagOff, MaxTokensField: "max_tokens"},
			},
		},
	},
	"keys-only": {EnvKeys: []string{"KEYS_ONLY_API_KEY"}},
}

func registry(t *testing.T, env map[string]string, registrations map[string]providers.Registration) *providers.Registry {
	t.Helper()
	r := providers.NewRegistry(&providers.RegistryOptions{
		Catalog: catalog,
		Getenv:  func(name string) string { return env[name] },
	})
	for id, reg := range registrations {
		if err := r.RegisterProvider(id, reg); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// bigDefaults is the catalog's "acme/org/big" without any registration.
func bigDefaults() providers.Model {
	return providers.Model{
		Provider: "acme", ID: "org/big", API: "api-2", BaseURL: "https://two.acme.example:8443/v2",
		Headers:       map[string]string{"X-A": "catalog", "X-B": "catalog"},
		ContextWindow: 1000, MaxTokens: 100, Reasoning: true, Input: []string{"text", "image"},
		Cost:      providers.Cost{Rates: providers.Rates{Input: 3, Output: 15}},
		Thinking:  providers.ThinkingMap{"off": nil, "xhigh": new("extra")},
		Compat:    providers.Compat{SupportsStore: providers.FlagOff, MaxTokensField: "max_tokens"},
		Telemetry: providers.Telemetry{ProviderName: "acme", ServerAddress: "two.acme.example", ServerPort: 8443},
	}
}

func TestResolve(t *testing.T) {
	scratch := providers.Registration{API: "a", BaseURL: "http://localhost:8080/v1"}
	bigDefaults := bigDefaults()
	with := func(m providers.Model, change func(*providers.Model)) providers.Model {
		change(&m)
		return m
	}
	tests := []struct {
		name string
		reg  map[string]providers.Registration
		spec string
		want providers.Model
	}{
		{"from scratch", map[string]providers.Registration{"own": scratch}, "own/a/b", providers.Model{
			Provider: "own", ID: "a/b", API: "a", BaseURL: "http://localhost:8080/v1", Input: []string{"text"},
			Telemetry: providers.Telemetry{ProviderName: "own", ServerAddress: "localhost", ServerPort: 8080},
		}},
		{"catalog alone", nil, "acme/org/big", bigDefaults},
		{"empty registration", map[string]providers.Registration{"acme": {}}, "acme/org/big", bigDefaults},
		{"unlisted model", map[string]providers.Registration{"acme": {}}, "acme/new", providers.Model{
			Provider: "acme", ID: "new", API: "api-1", BaseURL: "https://one.acme.example/v1", Input: []string{"text"},
			Telemetry: providers.Telemetry{ProviderName: "acme", ServerAddress: "one.acme.example"},
		}},
		{"api and base url are independent", map[string]providers.Registration{"acme": {BaseURL: "http://proxy/"}}, "acme/org/big",
			with(bigDefaults, func(m *providers.Model) {
				m.BaseURL = "http://proxy/"
				m.Telemetry.ServerAddress, m.Telemetry.ServerPort = "proxy", 0
			})},
		{"registration over catalog", map[string]providers.Registration{"acme": {
			API: "x", ContextWindow: new(5), MaxTokens: new(0), Reasoning: new(false), Input: []string{"text"},
		}}, "acme/org/big", with(bigDefaults, func(m *providers.Model) {
			m.API, m.ContextWindow, m.MaxTokens, m.Reasoning, m.Input = "x", 5, 0, false, []string{"text"}
		})},
		{"model over registration", map[string]providers.Registration{"acme": {
			ContextWindow: new(5), MaxTokens: new(6), Reasoning: new(false), Input: []string{"text"},
			Models: map[string]providers.ModelOverride{"org/big": {ContextWindow: new(7), Reasoning: new(true)}},
		}}, "acme/org/big", with(bigDefaults, func(m *providers.Model) {
			m.ContextWindow, m.MaxTokens, m.Input = 7, 6, []string{"text"}
		})},
		{"override of another model", map[string]providers.Registration{"acme": {
			Models: map[string]providers.ModelOverride{"first": {ContextWindow: new(7)}},
		}}, "acme/org/big", bigDefaults},
		{"headers per key", map[string]providers.Registration{"acme": {
			Headers: map[string]string{"x-b": "own", "X-C": "own"},
		}}, "acme/org/big", with(bigDefaults, func(m *providers.Model) {
			m.Headers = map[string]string{"X-A": "catalog", "X-B": "own", "X-C": "own"}
		})},
		{"store is for responses", map[string]providers.Registration{"acme": {StoreResponses: true}}, "acme/org/big", bigDefaults},
		{"store", map[string]providers.Registration{"acme": {API: "azure-openai-responses", StoreResponses: true}}, "acme/org/big",
			with(bigDefaults, func(m *providers.Model) { m.API, m.StoreResponses = "azure-openai-responses", true })},
		{"telemetry", map[string]providers.Registration{"acme": {Telemetry: providers.Telemetry{ProviderName: "n", ServerPort: 1}}}, "acme/org/big",
			with(bigDefaults, func(m *providers.Model) { m.Telemetry.ProviderName, m.Telemetry.ServerPort = "n", 1 })},
		{"binding needs no endpoint", map[string]providers.Registration{"edge": {API: providers.APIEdgeAIBinding}}, "edge/m", providers.Model{
			Provider: "edge", ID: "m", API: "edge-ai-binding", Input: []string{"text"}, Telemetry: providers.Telemetry{ProviderName: "edge"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := registry(t, nil, tt.reg).Resolve(tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Spec() != tt.spec {
				t.Errorf("spec %q, want %q", got.Spec(), tt.spec)
			}
		})
	}
}

// TestResolveCompat merges what servers take field by field; a thinking map counts as a
// whole.
func TestResolveCompat(t *testing.T) {
	r := registry(t, nil, map[string]providers.Registration{"acme": {
		Thinking: providers.ThinkingMap{"low": nil},
		Compat:   providers.Compat{SupportsStore: providers.FlagOn, ThinkingFormat: "zai"},
		Models: map[string]providers.ModelOverride{"org/big": {
			Thinking: providers.ThinkingMap{"max": new("max")}, Compat: providers.Compat{ThinkingFormat: "qwen"},
		}},
	}})
	want := bigDefaults()
	want.Thinking = providers.ThinkingMap{"max": new("max")}
	want.Compat = providers.Compat{SupportsStore: providers.FlagOn, MaxTokensField: "max_tokens", ThinkingFormat: "qwen"}
	got, err := r.Resolve("acme/org/big")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestResolveErrors(t *testing.T) {
	r := registry(t, nil, map[string]providers.Registration{"own": {API: "a", BaseURL: "http://b/"}})
	for spec, want := range map[string]error{
		"own":         providers.ErrNoSlash,
		"":            providers.ErrNoSlash,
		"own/":        providers.ErrNoModelID,
		"acme/":       providers.ErrNoModelID,
		"/m":          providers.ErrUnknownProvider,
		"nobody/m":    providers.ErrUnknownProvider,
		"keys-only/m": providers.ErrUnknownProvider,
		"acme/new":    providers.ErrUnknownModel,
	} {
		_, err := r.Resolve(spec)
		var typed *providers.ModelError
		if !errors.Is(err, want) || !errors.As(err, &typed) || typed.Spec != spec {
			t.Errorf("%q: got %v, want %v", spec, err, want)
		}
	}
}

func TestRegisterProviderErrors(t *testing.T) {
	r := registry(t, nil, nil)
	for _, reg := range []providers.Registration{{}, {API: "a"}, {BaseURL: "http://b/"}} {
		for _, id := range []string{"own", "keys-only"} {
			var typed *providers.RegistrationError
			err := r.RegisterProvider(id, reg)
			if !errors.As(err, &typed) || typed.ProviderID != id || typed.Type() != "invalid_provider_registration" {
				t.Errorf("%s %+v: got %v", id, reg, err)
			}
			if _, err := r.Resolve(id + "/m"); !errors.Is(err, providers.ErrUnknownProvider) {
				t.Errorf("%s is registered all the same: %v", id, err)
			}
		}
	}
}

func TestRegistrationIsReplacedAndCopied(t *testing.T) {
	first := providers.Registration{
		API: "a", BaseURL: "http://b/", Headers: map[string]string{"X-A": "1"}, ContextWindow: new(5), Input: []string{"text"},
		Models: map[string]providers.ModelOverride{"m": {MaxTokens: new(3), Thinking: providers.ThinkingMap{"low": new("low")}}},
	}
	r := registry(t, nil, map[string]providers.Registration{"own": first})
	first.Headers["X-A"], *first.ContextWindow, first.Input[0] = "changed", 6, "image"
	*first.Models["m"].MaxTokens, *first.Models["m"].Thinking["low"] = 4, "changed"
	m, err := r.Resolve("own/m")
	if err != nil || *m.Thinking["low"] != "low" || m.Headers["X-A"] != "1" || m.ContextWindow != 5 || m.Input[0] != "text" || m.MaxTokens != 3 {
		t.Errorf("the registration follows its caller: %+v, %v", m, err)
	}
	m.Input[0] = "changed"
	if err := r.RegisterProvider("own", providers.Registration{API: "a", BaseURL: "http://c/"}); err != nil {
		t.Fatal(err)
	}
	m, err = r.Resolve("own/m")
	if err != nil || m.Headers != nil || m.ContextWindow != 0 || m.BaseURL != "http://c/" || m.Input[0] != "text" {
		t.Errorf("the registration was merged: %+v, %v", m, err)
	}
}

func TestRegistrationFieldNames(t *testing.T) {
	var got providers.Registration
	err := json.Unmarshal([]byte(`{"api":"a","baseUrl":"b","apiKey":"k","headers":{"h":"v"},"contextWindow":1,"maxTokens":0,
		"reasoning":false,"input":["text"],"models":{"m":{"contextWindow":2}},"storeResponses":true,
		"telemetry":{"providerName":"n","serverAddress":"s","serverPort":3}}`), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := providers.Registration{
		API: "a", BaseURL: "b", APIKey: "k", Headers: map[string]string{"h": "v"}, ContextWindow: new(1), MaxTokens: new(0),
		Reasoning: new(false), Input: []string{"text"}, Models: map[string]providers.ModelOverride{"m": {ContextWindow: new(2)}},
		StoreResponses: true, Telemetry: providers.Telemetry{ProviderName: "n", ServerAddress: "s", ServerPort: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPIKey(t *testing.T) {
	env := map[string]string{"ACME_TOKEN": " ", "ACME_API_KEY": "from-env\n", "OTHER": "x"}
	for _, tt := range []struct{ registered, want string }{
		{"own", "own"}, {" own\n", "own"}, {"", "from-env"}, {" \t\n", "from-env"},
	} {
		r := registry(t, env, map[string]providers.Registration{"acme": {APIKey: tt.registered}})
		if got := r.APIKey("acme"); got != tt.want {
			t.Errorf("registered %q: got %q, want %q", tt.registered, got, tt.want)
		}
	}
	r := registry(t, env, nil)
	if got := r.APIKey("acme"); got != "from-env" {
		t.Errorf("unregistered: got %q", got)
	}
	if got := r.APIKey("nobody"); got != "" {
		t.Errorf("unknown provider: got %q", got)
	}
	builtin := providers.NewRegistry(&providers.RegistryOptions{Getenv: func(name string) string { return "value of " + name }})
	if got := builtin.APIKey("openai"); got != "value of OPENAI_API_KEY" {
		t.Errorf("built-in catalog: got %q", got)
	}
}

// echo answers with the model and key it was called with.
type echo struct{ name string }

func (p echo) Stream(ctx context.Context, m providers.Model, _ providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		a.Text(fmt.Sprintf("%s %s %s %s", p.name, m.Spec(), m.BaseURL, o.APIKey))
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
}

func say(t *testing.T, stream iter.Seq2[providers.Event, error]) string {
	t.Helper()
	text := ""
	for e, err := range stream {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := e.(providers.TextDelta); ok {
			text += d.Text
		}
	}
	return text
}

// TestStreamIsLive makes one stream and ranges over it between registrations.
func TestStreamIsLive(t *testing.T) {
	env := map[string]string{}
	r := registry(t, env, nil)
	stream := r.Stream(t.Context(), "acme/first", providers.Request{}, providers.Options{})
	r.RegisterProtocol("api-1", echo{"one"})
	if got := say(t, stream); got != "one acme/first https://one.acme.example/v1 " {
		t.Errorf("got %q", got)
	}
	env["ACME_TOKEN"] = "env"
	if got := say(t, stream); got != "one acme/first https://one.acme.example/v1 env" {
		t.Errorf("got %q", got)
	}
	if err := r.RegisterProvider("acme", providers.Registration{BaseURL: "http://b/", APIKey: "own"}); err != nil {
		t.Fatal(err)
	}
	r.RegisterProtocol("api-1", echo{"two"})
	if got := say(t, stream); got != "two acme/first http://b/ own" {
		t.Errorf("got %q", got)
	}
	if got := say(t, r.Stream(t.Context(), "acme/first", providers.Request{}, providers.Options{APIKey: "call"})); got != "two acme/first http://b/ call" {
		t.Errorf("got %q", got)
	}
}

func TestStreamErrors(t *testing.T) {
	r := registry(t, nil, nil)
	for spec, want := range map[string]error{
		"acme":       providers.ErrNoSlash,
		"acme/first": providers.ErrUnknownProtocol,
	} {
		var last error
		for _, err := range r.Stream(t.Context(), spec, providers.Request{}, providers.Options{}) {
			last = err
		}
		var e *providers.Error
		if !errors.As(last, &e) || e.Kind != providers.KindUnresolved || !errors.Is(last, want) || e.Retryable() {
			t.Errorf("%s: got %v, want %v", spec, last, want)
		}
	}
}

func TestRegistryIsConcurrent(t *testing.T) {
	r := registry(t, nil, nil)
	r.RegisterProtocol("api-1", echo{"p"})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 100 {
				if err := r.RegisterProvider("acme", providers.Registration{APIKey: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
				r.RegisterProtocol("api-1", echo{fmt.Sprint(i)})
			}
		})
		wg.Go(func() {
			for range 100 {
				for _, err := range r.Stream(t.Context(), "acme/first", providers.Request{}, providers.Options{}) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func TestTelemetry(t *testing.T) {
	for id, want := range map[string]string{
		"amazon-bedrock": "aws.bedrock", "anthropic": "anthropic", "azure-openai-responses": "azure.ai.openai",
		"azure": "azure.ai.openai", "deepseek": "deepseek", "google": "gcp.gemini", "google-vertex": "gcp.vertex_ai",
		"groq": "groq", "mistral": "mistral_ai", "moonshotai": "moonshot_ai", "moonshotai-cn": "moonshot_ai",
		"openai": "openai", "xai": "x_ai", "cloudflare-ai-gateway": "cloudflare-ai-gateway", "mine": "mine",
	} {
		r := registry(t, nil, map[string]providers.Registration{id: {API: "a", BaseURL: "http://h/"}})
		if m, err := r.Resolve(id + "/m"); err != nil || m.Telemetry.ProviderName != want {
			t.Errorf("%s: got %q, %v, want %q", id, m.Telemetry.ProviderName, err, want)
		}
	}
	for baseURL, want := range map[string]providers.Telemetry{
		"https://h:443/v1": {ServerAddress: "h"}, "http://h:80": {ServerAddress: "h"}, "http://h:443": {ServerAddress: "h", ServerPort: 443},
		"https://[::1]:9/": {ServerAddress: "::1", ServerPort: 9}, "demo:": {}, "https://{location}-x.example/": {},
	} {
		want.ProviderName = "own"
		r := registry(t, nil, map[string]providers.Registration{"own": {API: "a", BaseURL: baseURL}})
		if m, err := r.Resolve("own/m"); err != nil || m.Telemetry != want {
			t.Errorf("%s: got %+v, %v, want %+v", baseURL, m.Telemetry, err, want)
		}
	}
}
