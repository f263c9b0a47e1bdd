package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/catalog"
)

// The examples of the page are valid configurations.
func TestPageOfProviders(t *testing.T) {
	page, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("the page shows no configuration")
	}
	o := options()
	o.Providers, o.Catalog = append(o.Providers, "groq"), append(o.Catalog, "groq")
	conf, err := config.Parse("page.yaml", []byte(block+"agents: {a: {model: local/thinker}}\n"), o)
	if err != nil {
		t.Fatal(err)
	}
	reg := providers.NewRegistry(&providers.RegistryOptions{Catalog: catalog.Builtin()})
	for id, r := range conf.Providers {
		if err := reg.RegisterProvider(id, r); err != nil {
			t.Error(err)
		}
	}
	m, err := reg.Resolve("local/thinker")
	if err != nil || !m.Reasoning || m.ContextWindow != 131072 || *m.Thinking["high"] != "full" || m.Compat.MaxTokensField != "max_tokens" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := reg.Resolve("openai/gpt-5"); err != nil || !m.StoreResponses || m.Headers["Openai-Project"] != "p1" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestCompatNamesSchemas(t *testing.T) {
	for _, d := range providers.SchemaDialects() {
		src := fmt.Sprintf("providers: {local: {api: anything, baseUrl: \"http://127.0.0.1/v1?a=b\", compat: {toolSchemas: %s}}}\nagents: {a: {model: local/m}}\n", d)
		conf, err := config.Parse("x.yaml", []byte(src), nil)
		if err != nil {
			t.Fatalf("%s\n%v", src, err)
		}
		if got := conf.Providers["local"]; got.Compat.ToolSchemas != string(d) || got.BaseURL != "http://127.0.0.1/v1?a=b" {
			t.Errorf("%s: got %q and %q", src, got.Compat.ToolSchemas, got.BaseURL)
		}
	}
	_, err := config.Parse("x.yaml", []byte("providers: {local: {api: x, baseUrl: \"http://127.0.0.1\", compat: {toolSchemas: none}}}\nagents: {a: {model: local/m}}\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "moonshot") {
		t.Errorf("got %v, want an error that lists the dialects", err)
	}
}

// A configuration can set everything that the catalog sets for a server.
// covers: providers/115
func TestCompatCoversCatalog(t *testing.T) {
	seen := map[providers.Compat]bool{}
	for _, p := range catalog.Builtin() {
		for _, m := range p.Models() {
			if seen[m.Compat] {
				continue
			}
			seen[m.Compat] = true
			compat, err := json.Marshal(m.Compat)
			if err != nil {
				t.Fatal(err)
			}
			thinking, err := json.Marshal(m.Thinking)
			if err != nil {
				t.Fatal(err)
			}
			compatText := `compat: ` + strings.ReplaceAll(string(compat), ":", ": ")
			if m.Thinking != nil {
				compatText += `, thinkingLevelMap: ` + strings.ReplaceAll(string(thinking), ":", ": ")
			}
			src := fmt.Sprintf("providers: {local: {api: anything, baseUrl: \"http://127.0.0.1\", %s}}\nagents: {a: {model: local/m}}\n", compatText)
			conf, err := config.Parse("x.yaml", []byte(src), nil)
			if err != nil {
				t.Fatalf("%s\n%v", src, err)
			}
			if got := conf.Providers["local"]; got.Compat != m.Compat || len(got.Thinking) != len(m.Thinking) {
				t.Errorf("%+v and %v became %+v and %v", m.Compat, m.Thinking, got.Compat, got.Thinking)
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("the catalog has %d kinds of servers", len(seen))
	}
}
