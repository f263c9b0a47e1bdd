package edge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/edge"
	"github.com/parleyrun/parley/providers/providertest"
)

// ran is one call of a binding.
type ran struct {
	Model   string
	Inputs  string
	Options providers.EdgeRunOptions
}

// binding records its calls and responds with answer.
type binding struct {
	mu     sync.Mutex
	calls  []ran
	answer func(ctx context.Context, r ran) (*http.Response, error)
}

func (b *binding) Run(ctx context.Context, model string, inputs *providers.Body, o providers.EdgeRunOptions) (*http.Response, error) {
	body := inputs.Open(ctx)
	defer body.Close()
	sent, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	r := ran{model, string(sent), o}
	b.mu.Lock()
	b.calls = append(b.calls, r)
	b.mu.Unlock()
	return b.answer(ctx, r)
}

func response(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// Responses in the two formats.
const (
	chatText = `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

	messagesText = `data: {"type":"message_start","message":{"id":"r"}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"}}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"
)

func speaks(_ context.Context, r ran) (*http.Response, error) {
	if strings.HasPrefix(r.Model, "anthropic/") {
		return response(200, messagesText), nil
	}
	return response(200, chatText), nil
}

// platform is the catalog of the edge platform.
var platform = providers.Catalog{"cloudflare-workers-ai": {Models: func() []providers.CatalogModel {
	return []providers.CatalogModel{{
		ID: "@cf/m", API: "openai-completions", BaseURL: "https://edge.example", ContextWindow: 9000, MaxTokens: 800, Reasoning: true,
		Thinking: providers.ThinkingMap{"max": new("max"), "high": new("very")}, Input: []string{"text", "image"},
		Compat: providers.Compat{SupportsStore: providers.FlagOn, ThinkingFormat: "qwen", MaxTokensField: "max_tokens"},
	}}
}}}

func registry(t *testing.T, b *binding, e providers.Edge) *providers.Registry {
	t.Helper()
	r := providers.NewRegistry(&providers.RegistryOptions{Catalog: platform, Getenv: func(string) string { return "" }})
	e.Binding = b
	if err := r.RegisterProvider("own", providers.Registration{API: edge.API, Edge: &e}); err != nil {
		t.Fatal(err)
	}
	if err := edge.Install(r, b, edge.MinCompatibilityDate); err != nil {
		t.Fatal(err)
	}
	return r
}

// request is a request with every part that the formats encode differently.
var request = providers.Request{
	System: "Be brief.",
	Tools:  []providers.Tool{{Name: "now", Description: "Tells."}},
	Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}}},
		{Role: providers.RoleAssistant, Parts: []providers.Part{providers.ToolCall{ID: "c", Name: "now"}}},
		{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "c", Content: []providers.Part{providers.Text{Text: "12:00"}}}}},
	},
}

// TestEdgeInputs checks every member of the binding's input.
// covers: providers/144, providers/146, providers/142 messages, providers/143 default_gateway
// covers: providers/143 not_anthropic, providers/143 options, providers/145 messages
func TestEdgeInputs(t *testing.T) {
	chat := func(more string) string {
		return `{"stream":true,"stream_options":{"include_usage":true},` + more + `
			"tools":[{"type":"function","function":{"name":"now","description":"Tells.","parameters":{"type":"object","properties":{}},"strict":false}}],
			"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"q"},
				{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"now","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"c","content":"12:00"}]}`
	}
	messages := func(limit string) string {
		return `{"stream":true,"max_tokens":` + limit + `,"system":"Be brief.",
			"tools":[{"name":"now","description":"Tells.","input_schema":{"type":"object","properties":{}}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"now","input":{}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"12:00"}]}]}]}`
	}
	own := &providers.EdgeGateway{ID: "own", SkipCache: new(true)}
	for name, tt := range map[string]struct {
		edge    providers.Edge
		model   string
		o       providers.Options
		inputs  string
		gateway *providers.EdgeGateway
		headers http.Header
	}{
		"default gateway": {providers.Edge{}, "@cf/other", providers.Options{}, chat(""), &providers.EdgeGateway{ID: "default"}, nil},
		"own gateway":     {providers.Edge{Gateway: own}, "@cf/other", providers.Options{}, chat(""), own, nil},
		"no gateway":      {providers.Edge{NoGateway: true}, "@cf/other", providers.Options{}, chat(""), nil, nil},
		"options": {providers.Edge{}, "@cf/m", providers.Options{MaxTokens: 50, Temperature: new(0.5), SessionID: "s", ThinkingLevel: providers.ThinkingMax, APIKey: "k"},
			chat(`"max_completion_tokens":50,"temperature":0.5,"reasoning_effort":"high",`), &providers.EdgeGateway{ID: "default"}, http.Header{"X-Session-Affinity": {"s"}}},
		"limit of the catalog": {providers.Edge{}, "@cf/m", providers.Options{ThinkingLevel: providers.ThinkingMinimal}, chat(`"max_completion_tokens":800,"reasoning_effort":"low",`),
			&providers.EdgeGateway{ID: "default"}, nil},
		"thinking off":        {providers.Edge{}, "@cf/m", providers.Options{ThinkingLevel: providers.ThinkingOff}, chat(`"max_completion_tokens":800,`), &providers.EdgeGateway{ID: "default"}, nil},
		"does not reason":     {providers.Edge{}, "@cf/other", providers.Options{ThinkingLevel: providers.ThinkingHigh}, chat(""), &providers.EdgeGateway{ID: "default"}, nil},
		"messages":            {providers.Edge{}, "anthropic/claude", providers.Options{SessionID: "s"}, messages("8192"), &providers.EdgeGateway{ID: "default"}, http.Header{"X-Session-Affinity": {"s"}}},
		"not anthropic":       {providers.Edge{}, "anthropic-like/claude", providers.Options{}, chat(""), &providers.EdgeGateway{ID: "default"}, nil},
		"messages to a limit": {providers.Edge{NoGateway: true}, "anthropic/claude", providers.Options{MaxTokens: 9, APIKey: "k"}, messages("9"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &binding{answer: speaks}
			events, failure, broken := providertest.Collect(registry(t, b, tt.edge).Stream(t.Context(), "own/"+tt.model, request, tt.o))
			if failure != nil || broken != nil || len(events) != 2 || len(b.calls) != 1 {
				t.Fatalf("got %d events of %d calls, %v, %v", len(events), len(b.calls), failure, broken)
			}
			got := b.calls[0]
			got.Inputs = providertest.Canonical(t, got.Inputs)
			want := ran{tt.model, providertest.Canonical(t, tt.inputs), providers.EdgeRunOptions{ReturnRawResponse: true, Gateway: tt.gateway, ExtraHeaders: tt.headers}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConformance(t *testing.T) {
	for _, model := range []string{"@cf/m", "anthropic/claude"} {
		t.Run(model, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Subject {
				m := providers.Model{
					Provider: "own", ID: model, API: edge.API, Input: []string{"text", "image"}, Edge: &providers.Edge{Binding: &binding{answer: byText}},
				}
				return providertest.Subject{
					Protocol: edge.New(nil), Model: m, Text: providertest.Ask("text"), Call: providertest.Ask("call"), Long: providertest.Ask("long"),
				}
			})
		})
	}
}

// byText responds according to the request.
func byText(ctx context.Context, r ran) (*http.Response, error) {
	switch anthropic := strings.HasPrefix(r.Model, "anthropic/"); {
	case strings.Contains(r.Inputs, `"call"`) && anthropic:
		call := strings.Replace(messagesText, `{"type":"text","text":"hi"}`, `{"type":"tool_use","id":"c","name":"f"}`, 1)
		return response(200, strings.Replace(call, "end_turn", "tool_use", 1)), nil
	case strings.Contains(r.Inputs, `"call"`):
		return response(200, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]},"finish_reason":"tool_calls"}]}`+"\n\n"), nil
	case strings.Contains(r.Inputs, `"long"`):
		begun := `data: {"choices":[{"delta":{"content":"begun"}}]}` + "\n\n"
		if anthropic {
			begun = strings.SplitAfterN(messagesText, "\n\n", 3)[0] + strings.SplitAfterN(messagesText, "\n\n", 3)[1]
		}
		resp, ends := response(200, ""), untilEnd{ctx}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader(begun), ends), ends}
		return resp, nil
	}
	return speaks(ctx, r)
}

// untilEnd is a body that blocks until its call ends.
type untilEnd struct{ ctx context.Context }

func (u untilEnd) Read([]byte) (int, error) { <-u.ctx.Done(); return 0, u.ctx.Err() }
func (untilEnd) Close() error               { return nil }

// covers: providers/147, providers/148 too_large, providers/150 no_body, providers/150 no_finish
// covers: providers/150 odd_content
func TestEdgeErrors(t *testing.T) {
	down := errors.New("the platform is down")
	answers := func(resp *http.Response, err error) func(context.Context, ran) (*http.Response, error) {
		return func(context.Context, ran) (*http.Response, error) { return resp, err }
	}
	for name, tt := range map[string]struct {
		answer func(context.Context, ran) (*http.Response, error)
		kind   providers.ErrorKind
		meta   map[string]any // of an EdgeError
	}{
		"too large": {answers(response(413, `{"error":{"message":"prompt"}}`), nil), providers.KindContextOverflow,
			map[string]any{"status": 413, "statusText": "Request Entity Too Large", "reason": "request_too_large"}},
		"rate limit":       {answers(response(429, ""), nil), providers.KindRateLimit, map[string]any{"status": 429, "statusText": "Too Many Requests"}},
		"bad gateway":      {answers(response(502, "abort"), nil), providers.KindOverloaded, map[string]any{"status": 502, "statusText": "Bad Gateway"}},
		"without any text": {answers(&http.Response{StatusCode: 502}, nil), providers.KindOverloaded, map[string]any{"status": 502}},
		"window":           {answers(response(400, `{"error":{"message":"maximum context length is 9"}}`), nil), providers.KindContextOverflow, map[string]any{"status": 400, "statusText": "Bad Request"}},
		"no body":          {answers(&http.Response{StatusCode: 200}, nil), providers.KindProtocol, nil},
		"no response":      {answers(nil, nil), providers.KindProtocol, nil},
		"cannot be run":    {answers(nil, down), providers.KindNetwork, nil},
		"no finish":        {answers(response(200, strings.Replace(chatText, `"stop"`, "null", 1)), nil), providers.KindTruncated, nil},
		"failed finish":    {answers(response(200, strings.Replace(chatText, `"stop"`, `"abort"`, 1)), nil), providers.KindOverloaded, nil},
		"odd content":      {answers(response(200, strings.Replace(chatText, `"hi"`, `["hi"]`, 1)), nil), providers.KindProtocol, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &binding{answer: tt.answer}
			_, failure, broken := providertest.Collect(registry(t, b, providers.Edge{}).Stream(t.Context(), "own/m", request, providers.Options{}))
			if broken != nil || failure == nil || failure.Kind != tt.kind || failure.Provider != "own" {
				t.Fatalf("got %v, %v, want kind %s", failure, broken, tt.kind)
			}
			var e *providers.EdgeAIBindingError
			if errors.As(failure, &e) != (tt.meta != nil) {
				t.Fatalf("got %v", failure)
			}
			if tt.meta != nil && (!cmp.Equal(e.Meta(), tt.meta) || e.Type() != "edge_ai_binding_error") {
				t.Errorf("got %s, %v, want %v", e.Type(), e.Meta(), tt.meta)
			}
			if name == "cannot be run" && !errors.Is(failure, down) {
				t.Errorf("got %v, want the binding's error", failure)
			}
		})
	}
}

// covers: providers/149
func TestEdgeNeedsABinding(t *testing.T) {
	r := providers.NewRegistry(nil)
	if err := r.RegisterProvider("own", providers.Registration{API: edge.API}); err != nil {
		t.Fatal(err)
	}
	if err := edge.Install(r, nil, edge.MinCompatibilityDate); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{"own/m", edge.DefaultProvider + "/anthropic/m"} {
		_, failure, _ := providertest.Collect(r.Stream(t.Context(), spec, request, providers.Options{}))
		if failure == nil || !errors.Is(failure, edge.ErrNoBinding) || failure.Retryable() {
			t.Errorf("%s: got %v", spec, failure)
		}
	}
}

// covers: providers/139, providers/140, providers/141
func TestEdgeInstall(t *testing.T) {
	for date, ok := range map[string]bool{
		"2026-04-01": true, "2027-01-31": true, "2026-03-31": false, "2025-12-31": false, "": false, "2026-4-1": false, "2026-04-31": false, "tomorrow": false,
	} {
		r := providers.NewRegistry(nil)
		err := edge.Install(r, &binding{}, date)
		var refused *edge.CompatibilityDateError
		if (err == nil) != ok || !ok && (!errors.As(err, &refused) || refused.Date != date || !strings.Contains(err.Error(), "2026-04-01")) {
			t.Errorf("%q: got %v", date, err)
		}
		if r.Supports(edge.API) != ok || r.Registered(edge.DefaultProvider) != ok {
			t.Errorf("%q: got registered %t and %t", date, r.Supports(edge.API), r.Registered(edge.DefaultProvider))
		}
	}
}

// TestEdgeInstallLeavesTheApplicationsOwn: an existing registration of the default id is kept.
// covers: providers/141
func TestEdgeInstallLeavesTheApplicationsOwn(t *testing.T) {
	r, own, platforms := providers.NewRegistry(nil), &binding{answer: speaks}, &binding{answer: speaks}
	if err := r.RegisterProvider(edge.DefaultProvider, providers.Registration{API: edge.API, Edge: &providers.Edge{Binding: own, NoGateway: true}}); err != nil {
		t.Fatal(err)
	}
	if err := edge.Install(r, platforms, "2026-10-01"); err != nil {
		t.Fatal(err)
	}
	if _, failure, _ := providertest.Collect(r.Stream(t.Context(), "cloudflare/m", request, providers.Options{})); failure != nil {
		t.Fatal(failure)
	}
	if len(own.calls) != 1 || len(platforms.calls) != 0 || own.calls[0].Options.Gateway != nil {
		t.Errorf("got calls %+v and %+v", own.calls, platforms.calls)
	}
}

// TestEdgeLeavesReasoningOut: a call whose replayed reasoning is rejected is repeated without it.
// covers: providers/174
func TestEdgeLeavesReasoningOut(t *testing.T) {
	b := &binding{answer: func(ctx context.Context, r ran) (*http.Response, error) {
		if strings.Contains(r.Inputs, "signature") {
			return response(400, "{\"error\":{\"message\":\"Invalid `signature` in `thinking` block\"}}"), nil
		}
		return speaks(ctx, r)
	}}
	req := providers.Request{Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}}},
		{Role: providers.RoleAssistant, Model: "own/anthropic/m", Parts: []providers.Part{providers.Reasoning{Text: "Hm", Signature: "s"}, providers.Text{Text: "a"}}},
		{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}}},
	}}
	if _, failure, _ := providertest.Collect(registry(t, b, providers.Edge{}).Stream(t.Context(), "own/anthropic/m", req, providers.Options{})); failure != nil || len(b.calls) != 2 {
		t.Errorf("got %d calls, %v", len(b.calls), failure)
	}
	if !json.Valid([]byte(b.calls[1].Inputs)) {
		t.Errorf("%s is not JSON", b.calls[1].Inputs)
	}
}

// TestRefusals sends the calls of the binding to an endpoint.
func TestRefusals(t *testing.T) {
	providertest.RunRefusals(t, func(t *testing.T, h http.HandlerFunc) (*providers.HTTP, providers.Model) {
		b := &binding{answer: func(context.Context, ran) (*http.Response, error) {
			w := httptest.NewRecorder()
			h(w, nil)
			return w.Result(), nil
		}}
		return edge.New(nil), providers.Model{Provider: "own", ID: "m", API: edge.API, Edge: &providers.Edge{Binding: b}}
	})
}
