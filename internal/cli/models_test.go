package cli

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// Every model of the catalog uses a format that the program implements.
// covers: providers/114
func TestCatalogFormatsAreSupported(t *testing.T) {
	reg, err := (&Program{}).NewProviders(0, func(string) string { return "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range reg.Models() {
		if !reg.Supports(m.API) {
			t.Errorf("%s: format %s is not supported", m.Spec(), m.API)
		}
	}
	mute := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin()})
	if err := CheckModel(mute, "openai/gpt-5", "x"); err == nil || !strings.Contains(err.Error(), "this program does not support its format openai-responses") {
		t.Errorf("got %v", err)
	}
}

func TestSetsOfVariablesAreFound(t *testing.T) {
	for id, p := range catalog.Builtin() {
		for _, set := range p.EnvSets {
			for _, whole := range []bool{true, false} {
				env := map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}
				for i, name := range set {
					if whole || i > 0 {
						env[name] = "v"
					}
				}
				reg, err := (&Program{}).NewProviders(0, func(name string) string { return env[name] }, nil)
				if err != nil {
					t.Fatal(err)
				}
				m, err := reg.Resolve(id + "/" + p.Models()[0].ID)
				if found := strings.Contains(reg.Credentials(m), set[0]); err != nil || found != whole {
					t.Errorf("%s with %v: found in %q, %v", id, env, reg.Credentials(m), err)
				}
			}
		}
	}
}

// The catalog defines the format of a vendor, and a variable replaces its server.
// covers: providers/13, providers/14, providers/15
func TestProvidersOfTheEnvironment(t *testing.T) {
	configured := map[string]providers.Registration{"openai": {BaseURL: "http://configured/v1"}}
	for _, tt := range []struct {
		env        map[string]string
		configured map[string]providers.Registration
		spec       string
		want       string // API and base URL, or the error
	}{
		{nil, nil, "openai/gpt-5", "openai-responses https://api.openai.com/v1"},
		{nil, nil, "openai/not-listed", "not listed"},
		{map[string]string{"OPENAI_BASE_URL": " http://own/v1\n"}, nil, "openai/gpt-5", "openai-completions http://own/v1"},
		{map[string]string{"OPENAI_BASE_URL": "http://own/v1"}, nil, "openai/not-listed", "openai-completions http://own/v1"},
		{map[string]string{"OPENAI_BASE_URL": " "}, nil, "openai/gpt-5", "openai-responses https://api.openai.com/v1"},
		{map[string]string{"OPENAI_BASE_URL": "http://own/v1"}, configured, "openai/gpt-5", "openai-responses http://configured/v1"},
		{nil, configured, "openai/not-listed", "openai-responses http://configured/v1"},
		{map[string]string{"ANTHROPIC_BASE_URL": "http://own"}, nil, "anthropic/not-listed", "anthropic-messages http://own"},
		{nil, nil, "anthropic/claude-opus-4-6", "anthropic-messages https://api.anthropic.com"},
		{nil, nil, "azure-openai-responses/gpt-5", "azure-openai-responses "},
	} {
		reg, err := (&Program{}).NewProviders(0, func(name string) string { return tt.env[name] }, tt.configured)
		if err != nil {
			t.Fatal(err)
		}
		m, err := reg.Resolve(tt.spec)
		if got := m.API + " " + m.BaseURL; err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, %s: got %q, %v; want %q", tt.env, tt.spec, got, err, tt.want)
		}
		if err == nil && !reg.Supports(m.API) {
			t.Errorf("%s: format %s is not supported", tt.spec, m.API)
		}
	}
	reg, err := (&Program{}).NewProviders(0, func(name string) string { return map[string]string{"OPENAI_BASE_URL": "http://own"}[name] }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := reg.Resolve("openai/gpt-5"); err != nil || m.ContextWindow != 400_000 || m.Cost.Input != 1.25 {
		t.Errorf("got %+v, %v for an unlisted model of a registered server", m, err)
	}
}

// Every protocol that a provider may name can be called, except those that only some platforms have.
func TestProtocolsAreSupported(t *testing.T) {
	reg, err := (&Program{}).NewProviders(0, func(string) string { return "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range protocols() {
		if !reg.Supports(api) && api != providers.APIEdgeAIBinding {
			t.Errorf("format %s is not supported", api)
		}
	}
}

func TestBaseURLsAreChecked(t *testing.T) {
	for _, name := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"} {
		_, err := (&Program{}).NewProviders(0, func(n string) string { return map[string]string{name: "api.example.com/v1"}[n] }, nil)
		if err == nil || !strings.HasPrefix(err.Error(), name+`: "api.example.com/v1" is not a URL; write http or https`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDemoHasOneModel(t *testing.T) {
	reg, err := (&Program{}).NewProviders(0, func(string) string { return "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckModel(reg, "demo/parot", "x"); err == nil || !strings.Contains(err.Error(), `the demo has one model, "demo/parrot"`) {
		t.Errorf("got %v", err)
	}
	if err := CheckModel(reg, DemoModel, "x"); err != nil {
		t.Error(err)
	}
	if reg, err = (&Program{}).NewProviders(0, func(string) string { return "" }, map[string]providers.Registration{
		"demo": {API: "openai-completions", BaseURL: "http://127.0.0.1:1"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := CheckModel(reg, "demo/own", "x"); err != nil {
		t.Errorf("a provider of one's own: %v", err)
	}
}
