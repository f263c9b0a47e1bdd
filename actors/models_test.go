package actors_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/demo"
)

// TestNewChecksModels: New rejects a model that cannot be called, wherever an agent names it.
func TestNewChecksModels(t *testing.T) {
	reg := providers.NewRegistry(&providers.RegistryOptions{Getenv: func(string) string { return "" }, Catalog: providers.Catalog{"acme": {
		EnvKeys: []providers.EnvKey{{Name: "ACME_KEY"}},
		Models: func() []providers.CatalogModel {
			return []providers.CatalogModel{{ID: "m", API: demo.API, BaseURL: "https://acme.example"}}
		},
	}}})
	reg.RegisterProtocol(demo.API, demo.New(0))
	paid := demo.Registration()
	paid.Models = map[string]providers.ModelOverride{"m": {Cost: &providers.Rates{Output: 1}}}
	for id, r := range map[string]providers.Registration{"demo": demo.Registration(), "own": {API: "unheard", BaseURL: "http://127.0.0.1:1"}, "paid": paid} {
		if err := reg.RegisterProvider(id, r); err != nil {
			t.Fatal(err)
		}
	}
	with := func(change func(a *agent.Agent)) *agent.Agent {
		a := &agent.Agent{Name: "a", Model: "demo/parrot"}
		change(a)
		return a
	}
	var keyless *providers.CredentialsError
	for _, tt := range []struct {
		name  string
		agent *agent.Agent
		want  error  // nil, a condition, or a *providers.CredentialsError
		text  string // part of the error, or of the log
	}{
		{"all is well", with(func(*agent.Agent) {}), nil, ""},
		{"any model of a registered provider", with(func(a *agent.Agent) { a.Model = "demo/unlisted" }), nil, ""},
		{"mistyped", with(func(a *agent.Agent) { a.Model = "acme/n" }), providers.ErrUnlistedModel, `agent "a": resolve model "acme/n"`},
		{"a fallback", with(func(a *agent.Agent) { a.Fallbacks = []string{"acne/m"} }), providers.ErrUnknownProvider, `agent "a": resolve model "acne/m"`},
		{"summarizer", with(func(a *agent.Agent) { a.Compaction.Model = "acne/m" }), providers.ErrUnknownProvider, `agent "a"`},
		{"a subagent", with(func(a *agent.Agent) { a.Subagents = []*agent.Agent{{Name: "s", Description: "S.", Model: "acme/n"}} }), providers.ErrUnlistedModel, `agent "a": subagent "s"`},
		{"no key", with(func(a *agent.Agent) { a.Model = "acme/m" }), keyless, "set ACME_KEY"},
		{"no price under a limit of dollars", with(func(a *agent.Agent) { a.Limits.Dollars = 1 }), nil, "limits of dollars count its calls as 0"},
		{"no price under a limit of a tree", with(func(a *agent.Agent) { a.Limits.TreeDollars = 1 }), nil, "model has no price"},
		{"no price, and only models with one", with(func(a *agent.Agent) { a.Limits.PricedOnly = true }), nil, "it is not called"},
		{"no price of a subagent's", with(func(a *agent.Agent) {
			a.Limits.Dollars, a.Model = 1, "paid/m"
			a.Subagents = []*agent.Agent{{Name: "s", Description: "S.", Model: "demo/parrot"}}
		}), nil, `agent=s model=demo/parrot`},
		{"a price", with(func(a *agent.Agent) { a.Limits.Dollars, a.Model = 1, "paid/m" }), nil, ""},
		{"unsupported format", with(func(a *agent.Agent) { a.Fallbacks = []string{"own/m"} }), nil, "level=WARN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			_, err := actors.New(newWorld(t).bucket, &actors.Options{Agents: []*agent.Agent{tt.agent}, Providers: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if tt.want == nil {
				if err != nil || (log.Len() > 0) != (tt.text != "") || !strings.Contains(log.String(), tt.text) {
					t.Errorf("got %v and log %q, want %q", err, &log, tt.text)
				}
				return
			}
			if _, isKey := tt.want.(*providers.CredentialsError); isKey != errors.As(err, &keyless) || !isKey && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v and %q", err, tt.want, tt.text)
			}
		})
	}
	if _, err := actors.New(newWorld(t).bucket, &actors.Options{Agents: []*agent.Agent{with(func(a *agent.Agent) { a.Model = "acne/m" })}}); err != nil {
		t.Errorf("runtime without agents: got %v", err)
	}
}
