package server

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/providertest"
)

// hello is the agent of the first program in README.
func hello(model string) *agent.Agent {
	clock := func(context.Context, struct{}) (string, error) { return time.Now().Format(time.Kitchen), nil }
	return &agent.Agent{
		Name: "hello", Model: model, Instructions: "Greet people, and tell them the time.",
		Tools: []agent.Tool{agent.NewTool("time", "Tells the time.", clock, nil)},
	}
}

// The first program of README, and one whose tool has fields of every type, run with servers that
// reject the same requests as their vendors.
func TestFirstProgramOfStrictVendors(t *testing.T) {
	type tree struct {
		Text string `json:"text"`
		Kids []tree `json:"kids"`
	}
	type order struct {
		Any      any               `json:"any"`
		Urgency  *string           `json:"urgency" jsonschema:"enum=low,enum=high"`
		Numbers  [2]float64        `json:"numbers"`
		Labels   map[string]string `json:"labels,omitempty"`
		Inner    struct{}          `json:"inner"`
		At       time.Time         `json:"at"`
		Tree     tree              `json:"tree"`
		ByNumber map[int]bool      `json:"byNumber,omitempty"`
		Bytes    []byte            `json:"bytes,omitempty"`
	}
	for name, v := range map[string]struct {
		vendor          *providertest.StrictVendor
		provider, model string
	}{
		"responses":        {&providertest.StrictVendor{API: "openai-responses", Dialect: providers.SchemaPlain}, "openai", "gpt-5"},
		"chat-completions": {&providertest.StrictVendor{API: "openai-completions", Dialect: providers.SchemaPlain}, "local", "m"},
		"Moonshot":         {&providertest.StrictVendor{API: "openai-completions", Dialect: providers.SchemaMoonshot}, "moonshotai", "kimi-k3"},
		"Fireworks":        {&providertest.StrictVendor{API: "openai-completions", Dialect: providers.SchemaFireworks}, "fireworks", "accounts/fireworks/models/own"},
		"Gemini":           {&providertest.StrictVendor{API: "google-generative-ai", Dialect: providers.SchemaGemini}, "google", "gemini-3.1-pro-preview"},
	} {
		t.Run(name, func(t *testing.T) {
			// The output limit is as large as the window, as for many models.
			const window = 32768
			v.vendor.Window = window
			server := httptest.NewServer(v.vendor)
			defer server.Close()
			spec := v.provider + "/" + v.model
			rich := hello(spec)
			rich.Name = "rich"
			rich.Tools = append(rich.Tools, agent.NewTool("order", "Orders.", func(context.Context, order) (string, error) { return "", nil }, nil))
			p := clitest.New(Commands)
			p.Own = cli.Program{
				Providers: map[string]providers.Registration{v.provider: {
					API: v.vendor.API, BaseURL: server.URL, APIKey: "key", ContextWindow: new(window), MaxTokens: new(window),
				}},
				Agents: []*agent.Agent{hello(spec), rich},
			}
			for _, a := range []string{"hello", "rich"} {
				code, out, errOut := p.Output(t, "run", a, "--message", "hi", "--data", t.TempDir())
				if code != 0 || !strings.Contains(out, "pong") {
					t.Errorf("agent %s: exit code %d, output %q, want pong\n%s\nrefused: %v", a, code, out, errOut, v.vendor.Refused())
				}
			}
		})
	}
}

func TestWarnSchemas(t *testing.T) {
	type node struct {
		Kids []node `json:"kids"`
	}
	a := hello("fireworks/accounts/fireworks/models/own")
	a.Tools = append(a.Tools,
		agent.NewTool("grow", "Grows.", func(context.Context, node) (string, error) { return "", nil }, nil),
		agent.NewTool("name", "Names.", func(context.Context, struct {
			Size int `json:"größe"`
		}) (string, error) {
			return "", nil
		}, nil))
	a.Fallbacks = []string{"anthropic/claude-opus-4-6"}
	reg := providers.NewRegistry(nil)
	for id, api := range map[string]string{"fireworks": "openai-completions", "anthropic": "anthropic-messages"} {
		if err := reg.RegisterProvider(id, providers.Registration{API: api, BaseURL: "http://127.0.0.1:1"}); err != nil {
			t.Fatal(err)
		}
	}
	var logs bytes.Buffer
	warnSchemas(slog.New(slog.NewTextHandler(&logs, nil)), reg, &agent.Agent{Name: "host", Model: "x", Subagents: []*agent.Agent{a}})
	for _, want := range []string{
		`agent=hello tool=grow model=fireworks/accounts/fireworks/models/own problems="/properties/kids`, "takes no recursive type",
		"agent=hello tool=name model=anthropic/claude-opus-4-6 problems=", "größe",
	} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("got %s\nwant a line with %s", logs.String(), want)
		}
	}
	if n := strings.Count(logs.String(), "\n"); n != 2 {
		t.Errorf("got %d lines, want 2: %s", n, logs.String())
	}
}
