package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// catalog has one provider with two different models.
var catalog = providers.Catalog{
	"acme": {
		EnvKeys: []providers.EnvKey{{Name: "ACME_TOKEN", Bearer: true}, {Name: "ACME_API_KEY"}},
		Models: listed(
			providers.CatalogModel{ID: "first", API: "api-1", BaseURL: "https://one.acme.example/v1", ContextWindow: 111, Headers: map[string]string{"X-First": "1"}},
			providers.CatalogModel{
				ID: "org/big", API: "api-2", BaseURL: "https://two.acme.example:8443/v2",
				Headers:       map[string]string{"X-A": "catalog", "X-B": "catalog"},
				ContextWindow: 1000, MaxTokens: 100, Reasoning: true, Input: []string{"text", "image"},
				Cost:     providers.Cost{Rates: providers.Rates{Input: 3, Output: 15}},
				Thinking: providers.ThinkingMap{"off": nil, "xhigh": new("extra")},
				Compat:   providers.Compat{SupportsStore: providers.FlagOff, MaxTokensField: "max_tokens"},

				InputLimits: providers.InputLimits{Images: 20},
			},
		),
	},
	"keys-only": {EnvKeys: []providers.EnvKey{{Name: "KEYS_ONLY_API_KEY"}}},
}

// listed returns a Models function of a catalog provider.
func listed(models ...providers.CatalogModel) func() []providers.CatalogModel {
	return func() []providers.CatalogModel { return models }
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

// resolveTest is a specifier with registrations and the expected model.
type resolveTest struct {
	name string
	reg  map[string]providers.Registration
	spec string
	want providers.Model
}

// big returns the second model of the catalog without a registration, modified by change.
func big(change func(*providers.Model)) providers.Model {
	m := providers.Model{
		Provider: "acme", ID: "org/big", API: "api-2", BaseURL: "https://two.acme.example:8443/v2",
		Headers:       map[string]string{"X-A": "catalog", "X-B": "catalog"},
		ContextWindow: 1000, MaxTokens: 100, Reasoning: true, Input: []string{"text", "image"},
		Cost:     providers.Cost{Rates: providers.Rates{Input: 3, Output: 15}},
		Thinking: providers.ThinkingMap{"off": nil, "xhigh": new("extra")},
		Compat:   providers.Compat{SupportsStore: providers.FlagOff, MaxTokensField: "max_tokens"},

		InputLimits: providers.InputLimits{Images: 20},

		Telemetry: providers.Telemetry{ProviderName: "acme", ServerAddress: "two.acme.example", ServerPort: 8443},
	}
	change(&m)
	return m
}

func resolveAll(t *testing.T, tests []resolveTest) {
	t.Helper()
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

// covers: providers/2, upgrade/19, providers/1 from_scratch, providers/4 from_scratch, providers/7 from_scratch
// covers: providers/11 catalog_alone, providers/11 empty_registration, providers/17 empty_registration
// covers: providers/26 headers_per_key, providers/27 from_scratch, providers/28 catalog_alone
// covers: providers/28 unlisted_model, providers/30 catalog_alone, providers/30 unlisted_model
// covers: providers/32 registration_over_catalog, providers/34 catalog_alone, providers/34 unlisted_model
// covers: providers/36 catalog_alone, providers/36 unlisted_model, providers/37 model_over_registration
// covers: providers/37 override_of_another_model, providers/40 catalog_alone
// covers: providers/42 compat_field_by_field,_the_thinking_map_as_a_whole
// covers: providers/43 compat_field_by_field,_the_thinking_map_as_a_whole
// covers: providers/64 api_and_base_url_are_independent, providers/64 unlisted_model
// covers: providers/65 model_over_registration, providers/65 registration_over_catalog, providers/65 unlisted_model
// covers: providers/66 headers_per_key, providers/67 catalog_alone, providers/67 from_scratch
// covers: providers/68 unlisted_model, providers/69 unlisted_model, providers/70 registration_over_catalog
// covers: providers/79 registration_over_catalog, providers/84 unlisted_model
func TestResolve(t *testing.T) {
	scratch := providers.Registration{API: "a", BaseURL: "http://localhost:8080/v1"}
	bigDefaults := big(func(*providers.Model) {})
	tests := []resolveTest{
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
			big(func(m *providers.Model) {
				m.BaseURL = "http://proxy/"
				m.Telemetry.ServerAddress, m.Telemetry.ServerPort = "proxy", 0
			})},
		{"registration over catalog", map[string]providers.Registration{"acme": {
			API: "x", ContextWindow: new(5), MaxTokens: new(0), Reasoning: new(false), Input: []string{"text"},
		}}, "acme/org/big", big(func(m *providers.Model) {
			m.API, m.ContextWindow, m.MaxTokens, m.Reasoning, m.Input = "x", 5, 0, false, []string{"text"}
		})},
		{"model over registration", map[string]providers.Registration{"acme": {
			ContextWindow: new(5), MaxTokens: new(6), Reasoning: new(false), Input: []string{"text"},
			Models: map[string]providers.ModelOverride{"org/big": {ContextWindow: new(7), Reasoning: new(true), Input: []string{"image"}}},
		}}, "acme/org/big", big(func(m *providers.Model) {
			m.ContextWindow, m.MaxTokens, m.Input = 7, 6, []string{"image"}
		})},
		{"compat field by field, the thinking map as a whole", map[string]providers.Registration{"acme": {
			Thinking: providers.ThinkingMap{"low": nil},
			Compat:   providers.Compat{SupportsStore: providers.FlagOn, ThinkingFormat: "zai"},
			Models: map[string]providers.ModelOverride{"org/big": {
				Thinking: providers.ThinkingMap{"max": new("max")}, Compat: providers.Compat{ThinkingFormat: "qwen"},
			}},
		}}, "acme/org/big", big(func(m *providers.Model) {
			m.Thinking = providers.ThinkingMap{"max": new("max")}
			m.Compat = providers.Compat{SupportsStore: providers.FlagOn, MaxTokensField: "max_tokens", ThinkingFormat: "qwen"}
		})},
		{"override of another model", map[string]providers.Registration{"acme": {
			Models: map[string]providers.ModelOverride{"first": {ContextWindow: new(7)}},
		}}, "acme/org/big", bigDefaults},
		{"headers per key", map[string]providers.Registration{"acme": {
			Headers: map[string]string{"x-b": "own", "X-C": "own"},
		}}, "acme/org/big", big(func(m *providers.Model) {
			m.Headers = map[string]string{"X-A": "catalog", "X-B": "own", "X-C": "own"}
		})},
	}
	resolveAll(t, tests)
}

// TestResolveOptions covers the fields of a registration other than endpoint and model properties.
// covers: providers/38 store_of_azure, providers/38 store_of_openai, providers/39 store_is_for_responses
// covers: providers/39 store_of_codex, providers/60 address_alone, providers/60 telemetry, providers/61 telemetry
// covers: providers/67 cost_of_a_registration
func TestResolveOptions(t *testing.T) {
	bigDefaults := big(func(*providers.Model) {})
	resolveAll(t, []resolveTest{
		{"store is for responses", map[string]providers.Registration{"acme": {StoreResponses: true}}, "acme/org/big", bigDefaults},
		{"store of azure", map[string]providers.Registration{"acme": {API: "azure-openai-responses", StoreResponses: true}}, "acme/org/big",
			big(func(m *providers.Model) { m.API, m.StoreResponses = "azure-openai-responses", true })},
		{"store of openai", map[string]providers.Registration{"acme": {API: "openai-responses", StoreResponses: true}}, "acme/org/big",
			big(func(m *providers.Model) { m.API, m.StoreResponses = "openai-responses", true })},
		{"store of codex", map[string]providers.Registration{"acme": {API: "openai-codex-responses", StoreResponses: true}}, "acme/org/big",
			big(func(m *providers.Model) { m.API = "openai-codex-responses" })},
		{"cost of a registration", map[string]providers.Registration{"acme": {
			Cost: &providers.Rates{Input: 1}, Models: map[string]providers.ModelOverride{"org/big": {Cost: &providers.Rates{Output: 2}}},
		}}, "acme/org/big", big(func(m *providers.Model) { m.Cost = providers.Cost{Rates: providers.Rates{Output: 2}} })},
		{"limits field by field", map[string]providers.Registration{"acme": {
			InputLimits: providers.InputLimits{Images: 20, ImagesPerMessage: 8, RequestBytes: 9},
			Models:      map[string]providers.ModelOverride{"org/big": {InputLimits: providers.InputLimits{Images: 5, ImageBytes: 6, ImageSide: 7}}},
		}}, "acme/org/big", big(func(m *providers.Model) {
			m.InputLimits = providers.InputLimits{Images: 5, ImagesPerMessage: 8, RequestBytes: 9, ImageBytes: 6, ImageSide: 7}
		})},
		{"telemetry", map[string]providers.Registration{"acme": {Telemetry: providers.Telemetry{ProviderName: "n", ServerPort: 1}}}, "acme/org/big",
			big(func(m *providers.Model) { m.Telemetry.ProviderName, m.Telemetry.ServerPort = "n", 1 })},
		{"address alone", map[string]providers.Registration{"acme": {BaseURL: "http://h:9", Telemetry: providers.Telemetry{ServerAddress: "s"}}}, "acme/org/big",
			big(func(m *providers.Model) {
				m.BaseURL, m.Telemetry.ServerAddress, m.Telemetry.ServerPort = "http://h:9", "s", 9
			})},
	})
}

// covers: providers/1, providers/86, providers/87, providers/88, providers/89, providers/90
func TestResolveErrors(t *testing.T) {
	r := registry(t, nil, map[string]providers.Registration{"own": {API: "a", BaseURL: "http://b/"}})
	for spec, want := range map[string]error{
		"own":         providers.ErrNoSlash,
		"":            providers.ErrNoSlash,
		"own/":        providers.ErrNoModelID,
		"acme/":       providers.ErrNoModelID,
		"/m":          providers.ErrUnknownProvider,
		"missing/m":   providers.ErrUnknownProvider,
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

// covers: providers/6, providers/71, providers/72
func TestRegisterProviderErrors(t *testing.T) {
	r := registry(t, nil, nil)
	for _, reg := range []providers.Registration{{}, {API: "a"}, {BaseURL: "http://b/"}} {
		for _, id := range []string{"own", "keys-only"} {
			var typed *providers.RegistrationError
			err := r.RegisterProvider(id, reg)
			if !errors.As(err, &typed) || typed.ProviderID != id || typed.Type() != "invalid_provider_registration" || typed.Meta()["providerId"] != id {
				t.Errorf("%s %+v: got %v", id, reg, err)
			}
			if _, err := r.Resolve(id + "/m"); !errors.Is(err, providers.ErrUnknownProvider) {
				t.Errorf("%s: got a registration, error %v", id, err)
			}
		}
	}
}

// TestInvalidProviderIDs: ids that no specifier can contain, and blank fields, are rejected by
// RegisterProvider and SetProvider.
// covers: providers/71
func TestInvalidProviderIDs(t *testing.T) {
	whole := providers.Registration{API: "a", BaseURL: "http://b/"}
	for _, tt := range []struct {
		id  string
		reg providers.Registration
	}{
		{"", whole}, {" ", whole}, {"a/b", whole}, {"/", whole}, {"a\n", whole}, {"a\x00b", whole}, {" a", whole}, {"a\u00a0", whole}, {"\xff", whole},
		{"", providers.Registration{API: "edge-ai-binding"}}, {"a/b", providers.Registration{API: "edge-ai-binding"}},
		{"own", providers.Registration{API: " ", BaseURL: "http://b/"}}, {"own", providers.Registration{API: "a", BaseURL: "\t"}},
		{"acme", providers.Registration{API: " "}}, {"acme", providers.Registration{BaseURL: " \n"}},
	} {
		r := registry(t, nil, nil)
		err := r.RegisterProvider(tt.id, tt.reg)
		var typed *providers.RegistrationError
		if !errors.As(err, &typed) || typed.ProviderID != tt.id || typed.Type() != "invalid_provider_registration" || r.Registered(tt.id) {
			t.Errorf("%q %+v: got %v, registered %t, want a *RegistrationError", tt.id, tt.reg, err, r.Registered(tt.id))
		}
		if tt.reg.API != whole.API || tt.reg.BaseURL != whole.BaseURL {
			continue
		}
		if err := r.SetProvider(&providers.Provider{ID: tt.id}); !errors.As(err, &typed) {
			t.Errorf("provider %q: got %v, want a *RegistrationError", tt.id, err)
		}
	}
	for _, id := range []string{"own", "Own.2_x-y", "my provider", "自分"} {
		if err := registry(t, nil, nil).RegisterProvider(id, whole); err != nil {
			t.Errorf("%q: got %v", id, err)
		}
	}
	for name, p := range map[string]providers.Provider{
		"blank base URL": {ID: "p", BaseURL: " "}, "blank model": {ID: "p", Models: []providers.CatalogModel{{ID: " ", API: "a"}}},
		"blank api": {ID: "p", Models: []providers.CatalogModel{{ID: "m", API: " "}}},
	} {
		var typed *providers.RegistrationError
		if err := registry(t, nil, nil).SetProvider(&p); !errors.As(err, &typed) {
			t.Errorf("%s: got %v, want a *RegistrationError", name, err)
		}
	}
}

// covers: providers/74, providers/75
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
		t.Errorf("registration changed with the caller's value: got %+v, %v", m, err)
	}
	m.Input[0] = "changed"
	if err := r.RegisterProvider("own", providers.Registration{API: "a", BaseURL: "http://c/"}); err != nil {
		t.Fatal(err)
	}
	m, err = r.Resolve("own/m")
	if err != nil || m.Headers != nil || m.ContextWindow != 0 || m.BaseURL != "http://c/" || m.Input[0] != "text" {
		t.Errorf("got a merged registration %+v, %v", m, err)
	}
}

// covers: providers/9, upgrade/19
func TestRegistrationFieldNames(t *testing.T) {
	var got providers.Registration
	err := json.Unmarshal([]byte(`{"api":"a","baseUrl":"b","apiKey":"k","headers":{"h":"v"},"contextWindow":1,"maxTokens":0,
		"reasoning":false,"input":["text"],"models":{"m":{"contextWindow":2}},"storeResponses":true,"longCacheRetention":true,
		"telemetry":{"providerName":"n","serverAddress":"s","serverPort":3}}`), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := providers.Registration{
		API: "a", BaseURL: "b", APIKey: "k", Headers: map[string]string{"h": "v"}, ContextWindow: new(1), MaxTokens: new(0),
		Reasoning: new(false), Input: []string{"text"}, Models: map[string]providers.ModelOverride{"m": {ContextWindow: new(2)}},
		StoreResponses: true, LongCacheRetention: true, Telemetry: providers.Telemetry{ProviderName: "n", ServerAddress: "s", ServerPort: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestModelErrorListsKnownNames: the error of a wrong specifier lists valid names.
// covers: providers/88, providers/89
func TestModelErrorListsKnownNames(t *testing.T) {
	r := registry(t, nil, nil)
	expect := func(spec, want string) {
		t.Helper()
		if _, err := r.Resolve(spec); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want suffix %q", spec, err, want)
		}
	}
	expect("missing/m", "; registered: (none)")
	expect("acme/new", "in the catalog; register the provider to call models that the catalog does not list")
	for i := range 9 {
		if err := r.RegisterProvider(fmt.Sprintf("p%d", i), providers.Registration{API: "a", BaseURL: "http://b/"}); err != nil {
			t.Fatal(err)
		}
	}
	expect("missing/m", "; registered: p0, p1, p2, p3, p4, p5, p6, p7, … (9 total)")
}

// TestRegistrationIsIsolated: a registration changes neither the catalog, nor other providers, nor the
// validation of ids.
// covers: providers/83, providers/84
func TestRegistrationIsIsolated(t *testing.T) {
	two := providers.Catalog{"acme": catalog["acme"], "other": catalog["acme"]}
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: two})
	before, err := r.Resolve("other/org/big")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RegisterProvider("acme", providers.Registration{
		API: "x", BaseURL: "http://x/", ContextWindow: new(1), Headers: map[string]string{"X-A": "own"}, Compat: providers.Compat{MaxTokensField: "own"},
	}); err != nil {
		t.Fatal(err)
	}
	if after, err := r.Resolve("other/org/big"); err != nil || !cmp.Equal(before, after) {
		t.Errorf("got a changed other provider: %v\n%s", err, cmp.Diff(before, after))
	}
	if big := two["acme"].Models()[1]; big.Headers["X-A"] != "catalog" || big.ContextWindow != 1000 {
		t.Errorf("got a changed catalog: %+v", big)
	}
	if m, err := r.Resolve("acme/org/big"); err != nil || m.Cost.Input != 3 {
		t.Errorf("got a changed price: %+v, %v", m.Cost, err)
	}
	if _, err := r.Resolve("other/unlisted"); !errors.Is(err, providers.ErrUnknownModel) {
		t.Errorf("other provider with an unlisted model: got %v", err)
	}
	if _, err := r.Resolve("acme/whatever/this is"); err != nil {
		t.Errorf("registered provider with an unlisted model: got %v", err)
	}
}

// TestCatalogIsReadLazily: the models of a provider are read once, on first use.
// covers: providers/116
func TestCatalogIsReadLazily(t *testing.T) {
	read := 0
	lazy := providers.Catalog{"acme": catalog["acme"], "older": catalog["acme"]}
	for id, p := range lazy {
		p.Models = func() []providers.CatalogModel { read++; return catalog["acme"].Models() }
		lazy[id] = p
	}
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: lazy, Getenv: func(string) string { return "" }})
	for id, reg := range map[string]providers.Registration{
		"acme": {}, "own": {API: "a", BaseURL: "http://b/"}, "edge": {API: providers.APIEdgeAIBinding},
	} {
		if err := r.RegisterProvider(id, reg); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SetProvider(&providers.Provider{ID: "object", Models: catalog["acme"].Models()}); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{"own/m", "object/first", "edge/m", "missing/m", "acme", "older/"} {
		m, _ := r.Resolve(spec)
		_, _ = r.Endpoint(m)
		_, _, _ = r.Credentials(m), r.EnvKeys(m.Provider), r.APIKey(m.Provider)
	}
	r.Secrets()
	if read != 0 {
		t.Errorf("without its models: got %d reads of the catalog", read)
	}
	for range 2 {
		if m, err := r.Resolve("acme/first"); err != nil || m.ContextWindow != 111 {
			t.Errorf("got %+v, %v", m, err)
		}
	}
	if read != 1 {
		t.Errorf("one model: got %d reads of the catalog", read)
	}
}

func TestModelsList(t *testing.T) {
	more := providers.Catalog{"older": {AliasOf: "acme", Models: catalog["acme"].Models}}
	maps.Copy(more, catalog)
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: more})
	list := func() (specs []string) {
		for _, m := range r.Models() {
			specs = append(specs, m.Spec())
		}
		return specs
	}
	if diff := cmp.Diff([]string{"acme/first", "acme/org/big"}, list()); diff != "" {
		t.Errorf("the catalog alone (-want +got):\n%s", diff)
	}
	for id, reg := range map[string]providers.Registration{
		"own":   {API: "a", BaseURL: "http://b/", Models: map[string]providers.ModelOverride{"z": {}, "a": {}}},
		"acme":  {Models: map[string]providers.ModelOverride{"first": {ContextWindow: new(7)}, "extra": {}}},
		"older": {},
	} {
		if err := r.RegisterProvider(id, reg); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"acme/first", "acme/org/big", "acme/extra", "older/first", "older/org/big", "own/a", "own/z"}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("with registrations (-want +got):\n%s", diff)
	}
	if got := r.Models()[0].ContextWindow; got != 7 {
		t.Errorf("a registration does not show: the window is %d", got)
	}
}

// covers: providers/20, providers/21, providers/22
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
	if got := r.APIKey("missing"); got != "" {
		t.Errorf("unknown provider: got %q", got)
	}
}

// checking rejects keys in angle brackets.
type checking struct{ *providers.HTTP }

// IsKey implements providers.KeyChecker.
func (checking) IsKey(key string) bool { return !strings.HasPrefix(key, "<") }

// covers: providers/20, providers/21, providers/46, providers/106
func TestCredentials(t *testing.T) {
	sets := providers.Catalog{"cloud": {
		EnvKeys: []providers.EnvKey{{Name: "KEY"}}, EnvSets: [][]string{{"PROFILE"}}, Models: catalog["acme"].Models,
	}}
	for _, tt := range []struct {
		env  map[string]string
		reg  *providers.Registration
		api  string
		want string
	}{
		{nil, nil, "", ""},
		{map[string]string{"KEY": "k", "PROFILE": "p"}, nil, "", "KEY"},
		{map[string]string{"KEY": " ", "PROFILE": "p"}, nil, "", ""},
		{map[string]string{"KEY": "k"}, &providers.Registration{APIKey: "own"}, "", providers.FromRegistration},
		{map[string]string{"KEY": "k"}, &providers.Registration{APIKey: " "}, "", "KEY"},
		{map[string]string{"KEY": "k"}, &providers.Registration{API: providers.APIEdgeAIBinding}, "", ""},
		{nil, nil, "finds", "a file"},
		{map[string]string{"PROFILE": "p"}, nil, "finds", "a file"},
		{map[string]string{"PROFILE": "p"}, nil, "finds nothing", ""},
		{map[string]string{"KEY": "k"}, nil, "finds", "KEY"},
		{map[string]string{"KEY": "k"}, nil, "checks", "KEY"},
		{map[string]string{"KEY": "<none>"}, nil, "checks", "a file"},
		{map[string]string{"KEY": "k"}, &providers.Registration{APIKey: "<none>"}, "checks", "a file"},
		{map[string]string{"KEY": "<none>"}, nil, "", "KEY"},
		{nil, &providers.Registration{APIKey: "own"}, "finds", providers.FromRegistration},
	} {
		r := providers.NewRegistry(&providers.RegistryOptions{Catalog: sets, Getenv: func(name string) string { return tt.env[name] }})
		finds := providers.NewHTTP(nil, &providers.HTTPOptions{FindCredentials: func(m providers.Model) string {
			return map[string]string{"cloud/m": "a file"}[m.Spec()]
		}})
		r.RegisterProtocol("finds", finds)
		r.RegisterProtocol("checks", checking{finds})
		r.RegisterProtocol("finds nothing", providers.NewHTTP(nil, nil))
		if tt.reg != nil {
			if err := r.RegisterProvider("cloud", *tt.reg); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.Credentials(providers.Model{Provider: "cloud", ID: "m", API: tt.api}); got != tt.want {
			t.Errorf("%v, %+v, %q: got %q, want %q", tt.env, tt.reg, tt.api, got, tt.want)
		}
	}
	if got := registry(t, nil, nil).EnvKeys("acme"); !slices.Equal(got, []string{"ACME_TOKEN", "ACME_API_KEY"}) {
		t.Errorf("the variables are %q", got)
	}
}

// echo answers with the model and key of the call.
type echo struct{ name string }

func (p echo) Stream(ctx context.Context, m providers.Model, _ providers.Request, o providers.Options) iter.Seq2[providers.Event, error] {
	return providers.NewStream(ctx, m, func(a *providers.Assembler) error {
		key := o.APIKey
		if o.Bearer {
			key = "Bearer " + key
		}
		a.Text(fmt.Sprintf("%s %s %s %s", p.name, m.Spec(), m.BaseURL, key))
		a.Finish(providers.Done{StopReason: providers.StopStop})
		return nil
	})
}

func textOf(t *testing.T, stream iter.Seq2[providers.Event, error]) string {
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

// TestStreamIsLive ranges over one stream before and after a registration.
// covers: providers/3, providers/4, providers/5, providers/10, providers/19, providers/23, providers/81, providers/82
func TestStreamIsLive(t *testing.T) {
	env := map[string]string{}
	r := registry(t, env, nil)
	stream := r.Stream(t.Context(), "acme/first", providers.Request{}, providers.Options{})
	r.RegisterProtocol("api-1", echo{"one"})
	if got := textOf(t, stream); got != "one acme/first https://one.acme.example/v1 " {
		t.Errorf("got %q", got)
	}
	env["ACME_TOKEN"] = "env"
	if got := textOf(t, stream); got != "one acme/first https://one.acme.example/v1 Bearer env" {
		t.Errorf("got %q", got)
	}
	if err := r.RegisterProvider("acme", providers.Registration{BaseURL: "http://b/", APIKey: "own"}); err != nil {
		t.Fatal(err)
	}
	r.RegisterProtocol("api-1", echo{"two"})
	if got := textOf(t, stream); got != "two acme/first http://b/ own" {
		t.Errorf("got %q", got)
	}
	if got := textOf(t, r.Stream(t.Context(), "acme/first", providers.Request{}, providers.Options{APIKey: "call"})); got != "two acme/first http://b/ call" {
		t.Errorf("got %q", got)
	}
}

// covers: providers/12, providers/86, providers/90
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

// covers: providers/12, providers/57, providers/58, providers/59, upgrade/19
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
	// A Locator overrides the base URL.
	elsewhere := providers.NewHTTP(nil, &providers.HTTPOptions{Locate: func(m providers.Model, o providers.Options) (string, error) {
		if m.ID == "lost" {
			return "", errors.New("no address")
		}
		return "https://" + o.APIKey + "." + m.ID + ".example:8443" + strings.TrimPrefix(m.BaseURL, "http://h"), nil
	}})
	for spec, want := range map[string]providers.Telemetry{
		"own/m": {ProviderName: "own", ServerAddress: "k.m.example", ServerPort: 8443}, "own/lost": {ProviderName: "own", ServerAddress: "h"},
		"named/m": {ProviderName: "named", ServerAddress: "set", ServerPort: 8443}, "sited/m": {ProviderName: "sited", ServerAddress: "k.m.example", ServerPort: 8443},
	} {
		r := registry(t, map[string]string{"SITE": "h"}, map[string]providers.Registration{
			"own":   {API: "moved", BaseURL: "http://h/", APIKey: "k"},
			"named": {API: "moved", BaseURL: "http://h/", APIKey: "k", Telemetry: providers.Telemetry{ServerAddress: "set"}},
			"sited": {API: "moved", BaseURL: "http://{SITE}/", APIKey: "k"},
		})
		r.RegisterProtocol("moved", elsewhere)
		if m, err := r.Resolve(spec); err != nil || m.Telemetry != want {
			t.Errorf("%s: got %+v, %v, want %+v", spec, m.Telemetry, err, want)
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
