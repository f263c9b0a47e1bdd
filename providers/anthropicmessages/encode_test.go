package anthropicmessages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// encode returns the body with sorted keys.
func encode(t *testing.T, m providers.Model, req providers.Request, o providers.Options) string {
	t.Helper()
	return providertest.Encoded(t, anthropicmessages.NewCodec(nil), m, req, o)
}

// TestCopilotHeaders checks the request headers of GitHub Copilot.
// covers: providers/119
func TestCopilotHeaders(t *testing.T) {
	for provider, want := range map[string]string{"github-copilot": "user", "p": ""} {
		call, err := anthropicmessages.NewCodec(nil).Encode(providers.Model{Provider: provider, ID: "m"}, providers.Request{}, providers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Header.Get("X-Initiator"); got != want {
			t.Errorf("%s: got %q, want %q", provider, got, want)
		}
	}
}

// covers: providers/118
func TestEncodeWholeRequest(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "org/m", Input: []string{"text", "image"}, Reasoning: true}
	req := providers.Request{
		System: "Be <brief>.",
		Tools: []providers.Tool{
			{Name: "add", Description: "Adds.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "now"},
		},
		Messages: []providers.Message{
			{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "See"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")}}},
			{Role: providers.RoleAssistant, Model: "p/org/m", Parts: []providers.Part{
				providers.Reasoning{Text: "Hm", Signature: "c2ln"},
				providers.Text{Text: "\n\n"},
				providers.ToolCall{ID: "c0", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
				providers.ToolCall{ID: "c1", Name: "now", Arguments: json.RawMessage(`{}`)},
			}},
			{Role: providers.RoleTool, Parts: []providers.Part{
				providers.ToolResult{CallID: "c0", Content: []providers.Part{providers.Text{Text: "ok"}, providers.Image{MimeType: "image/gif", Content: providers.Bytes("x")}}},
				providers.ToolResult{CallID: "c1", IsError: true},
			}},
			{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "one"}, providers.Text{Text: "two"}}},
			{Role: providers.RoleAssistant, Model: "q/other", Parts: []providers.Part{
				providers.Reasoning{Text: "secret", Signature: "x"}, providers.Text{Text: "Done."},
			}},
		},
	}
	got := encode(t, m, req, providers.Options{MaxTokens: 9000, Temperature: new(0.0), ThinkingLevel: providers.ThinkingLow})
	want := providertest.Canonical(t, `{
		"model": "org/m", "stream": true, "max_tokens": 11048,
		"thinking": {"type": "enabled", "budget_tokens": 2048},
		"system": [{"type": "text", "text": "Be <brief>.", "cache_control": {"type": "ephemeral"}}],
		"tools": [
			{"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
			{"name": "now", "input_schema": {"type": "object", "properties": {}}, "cache_control": {"type": "ephemeral"}}
		],
		"messages": [
			{"role": "user", "content": [
				{"type": "text", "text": "See"},
				{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "YWJj"}}
			]},
			{"role": "assistant", "content": [
				{"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
				{"type": "tool_use", "id": "c0", "name": "add", "input": {"n": 12345678901234567890}},
				{"type": "tool_use", "id": "c1", "name": "now", "input": {}}
			]},
			{"role": "user", "content": [
				{"type": "tool_result", "tool_use_id": "c0", "content": [
					{"type": "text", "text": "ok"},
					{"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "eA=="}}
				]},
				{"type": "tool_result", "tool_use_id": "c1", "is_error": true},
				{"type": "text", "text": "one"},
				{"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}
			]},
			{"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
		]
	}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEncodeKey: a token is sent as a bearer token.
// covers: providers/120
func TestEncodeKey(t *testing.T) {
	for _, tt := range []struct {
		o              providers.Options
		key, authorize string
	}{
		{providers.Options{}, "", ""},
		{providers.Options{APIKey: "k"}, "k", ""},
		{providers.Options{APIKey: "t", Bearer: true}, "", "Bearer t"},
		{providers.Options{APIKey: "sk-ant-oat01-t"}, "", "Bearer sk-ant-oat01-t"},
		{providers.Options{APIKey: "sk-ant-api03-k"}, "sk-ant-api03-k", ""},
		{providers.Options{Bearer: true}, "", ""},
	} {
		call, err := anthropicmessages.NewCodec(nil).Encode(providers.Model{}, providers.Request{}, tt.o)
		if err != nil {
			t.Fatal(err)
		}
		if key, authorize := call.Header.Get("X-Api-Key"), call.Header.Get("Authorization"); key != tt.key || authorize != tt.authorize {
			t.Errorf("%+v: got key %q and authorization %q", tt.o, key, authorize)
		}
		// No other header identifies the client.
		want := ""
		if strings.HasPrefix(tt.o.APIKey, "sk-ant-oat") {
			want = "oauth-2025-04-20"
		}
		if beta, agent := call.Header.Get("Anthropic-Beta"), call.Header.Get("User-Agent"); beta != want || agent != "" || call.Header.Get("X-App") != "" {
			t.Errorf("%+v: got beta %q and agent %q", tt.o, beta, agent)
		}
	}
}

// TestLongCacheRetention: all markers of a request have the same retention.
// covers: providers/117, providers/118
func TestLongCacheRetention(t *testing.T) {
	ask := func(text string) []providers.Message {
		return []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: text}}}}
	}
	req := providers.Request{System: "s", Tools: []providers.Tool{{Name: "f"}}, History: []*providers.Block{providers.NewBlock(ask("q"))}, Messages: ask("r")}
	for want, m := range map[int]providers.Model{
		3: {LongCacheRetention: true},
		0: {LongCacheRetention: true, Compat: providers.Compat{SupportsLongCacheRetention: providers.FlagOff}},
	} {
		got := encode(t, m, req, providers.Options{})
		if n := strings.Count(got, `"ttl": "1h"`); n != want || strings.Count(got, `"type": "ephemeral"`) != 3 {
			t.Errorf("%d of the marks are for an hour, want %d of 3: %s", n, want, got)
		}
	}
	if got := encode(t, providers.Model{}, req, providers.Options{}); strings.Contains(got, "ttl") {
		t.Errorf("got a cache lifetime of an hour, want none: %s", got)
	}
}

// TestEagerInput: eager streaming is requested from the vendor only; other servers may not know the
// member.
// covers: providers/121
func TestEagerInput(t *testing.T) {
	const on, off = providers.FlagOn, providers.FlagOff
	for name, tt := range map[string]struct {
		m    providers.Model
		want bool
	}{
		"the vendor":         {providers.Model{BaseURL: "https://api.anthropic.com"}, true},
		"the vendor, not so": {providers.Model{BaseURL: "https://api.anthropic.com", Compat: providers.Compat{SupportsEagerToolInputStreaming: off}}, false},
		"another server":     {providers.Model{BaseURL: "https://gateway.example"}, false},
		"one that takes it":  {providers.Model{BaseURL: "https://gateway.example", Compat: providers.Compat{SupportsEagerToolInputStreaming: on}}, true},
	} {
		got := encode(t, tt.m, providers.Request{Tools: []providers.Tool{{Name: "f"}, {Name: "g"}}}, providers.Options{})
		if n := strings.Count(got, `"eager_input_streaming": true`); (n == 2) != tt.want || (n == 0) == tt.want {
			t.Errorf("%s: got %d of 2 tools, want them: %v", name, n, tt.want)
		}
	}
}

// covers: providers/194, providers/176 never_off
func TestEncodeLimits(t *testing.T) {
	adaptive := providers.Compat{ForceAdaptiveThinking: providers.FlagOn}
	tests := []struct {
		name  string
		model providers.Model
		o     providers.Options
		want  string
	}{
		{"default", providers.Model{}, providers.Options{}, `{"max_tokens":8192}`},
		{"of the model", providers.Model{MaxTokens: 64000}, providers.Options{}, `{"max_tokens":64000}`},
		{"of the caller", providers.Model{MaxTokens: 64000}, providers.Options{MaxTokens: 5}, `{"max_tokens":5}`},
		{"temperature", providers.Model{}, providers.Options{Temperature: new(0.5)}, `{"max_tokens":8192,"temperature":0.5}`},
		{"no reasoning", providers.Model{}, providers.Options{ThinkingLevel: "max"}, `{"max_tokens":8192}`},
		{"no level", providers.Model{Reasoning: true}, providers.Options{}, `{"max_tokens":8192}`},
		{"off", providers.Model{Reasoning: true}, providers.Options{ThinkingLevel: "off", Temperature: new(0.5)}, `{"max_tokens":8192,"temperature":0.5,"thinking":{"type":"disabled"}}`},
		{"never off", providers.Model{Reasoning: true, Thinking: providers.ThinkingMap{"off": nil}}, providers.Options{ThinkingLevel: "off"}, `{"max_tokens":8192}`},
		{"adaptive", providers.Model{Reasoning: true, MaxTokens: 64000, Compat: adaptive}, providers.Options{ThinkingLevel: "high", MaxTokens: 100, Temperature: new(0.5)},
			`{"max_tokens":100,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}}`},
		{"adaptive, least", providers.Model{Reasoning: true, Compat: adaptive}, providers.Options{ThinkingLevel: "minimal"},
			`{"max_tokens":8192,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}}`},
		{"adaptive, in the vendor's word", providers.Model{Reasoning: true, Compat: adaptive, Thinking: providers.ThinkingMap{"max": new("most")}}, providers.Options{ThinkingLevel: "max"},
			`{"max_tokens":8192,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"most"}}`},
		{"adaptive, off", providers.Model{Reasoning: true, Compat: adaptive}, providers.Options{ThinkingLevel: "off"}, `{"max_tokens":8192,"thinking":{"type":"disabled"}}`},
		{"no temperature", providers.Model{Compat: providers.Compat{SupportsTemperature: providers.FlagOff}}, providers.Options{Temperature: new(0.5)}, `{"max_tokens":8192}`},
		{"minimal", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{ThinkingLevel: "minimal"}, `{"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":1024}}`},
		{"low", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{ThinkingLevel: "low"}, `{"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":2048}}`},
		{"medium", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{ThinkingLevel: "medium"}, `{"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":8192}}`},
		{"high", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{ThinkingLevel: "high"}, `{"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":16384}}`},
		{"xhigh", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{ThinkingLevel: "xhigh"}, `{"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":16384}}`},
		{"max", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{ThinkingLevel: "max"}, `{"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":16384}}`},
		{"raised above the budget", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{MaxTokens: 100, ThinkingLevel: "high"}, `{"max_tokens":17408,"thinking":{"type":"enabled","budget_tokens":16384}}`},
		{"raised by the budget", providers.Model{Reasoning: true, MaxTokens: 64000}, providers.Options{MaxTokens: 20000, ThinkingLevel: "high"}, `{"max_tokens":36384,"thinking":{"type":"enabled","budget_tokens":16384}}`},
		{"raised to the model's limit", providers.Model{Reasoning: true, MaxTokens: 30000}, providers.Options{MaxTokens: 20000, ThinkingLevel: "high"}, `{"max_tokens":30000,"thinking":{"type":"enabled","budget_tokens":16384}}`},
		{"default raised", providers.Model{Reasoning: true}, providers.Options{ThinkingLevel: "medium"}, `{"max_tokens":16384,"thinking":{"type":"enabled","budget_tokens":8192}}`},
		{"budget shrinks", providers.Model{Reasoning: true, MaxTokens: 4096}, providers.Options{ThinkingLevel: "high"}, `{"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":3072}}`},
		{"no room", providers.Model{Reasoning: true, MaxTokens: 2047}, providers.Options{MaxTokens: 7, ThinkingLevel: "high", Temperature: new(1.0)}, `{"max_tokens":7,"temperature":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got map[string]json.RawMessage
			if err := json.Unmarshal([]byte(encode(t, tt.model, providers.Request{}, tt.o)), &got); err != nil {
				t.Fatal(err)
			}
			for _, always := range []string{"model", "messages", "stream"} {
				if _, ok := got[always]; !ok {
					t.Errorf("%s is missing", always)
				}
				delete(got, always)
			}
			rest, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(providertest.Canonical(t, tt.want), providertest.Canonical(t, string(rest))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodeResultsOfOthers: results of calls made without thinking, such as those of another model,
// are sent without a budget.
// covers: providers/196
func TestEncodeResultsOfOthers(t *testing.T) {
	call := providers.ToolCall{ID: "c", Name: "f"}
	thought := providers.Reasoning{Text: "hm", Signature: "s"}
	result := providers.Message{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "c"}}}
	question := providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}}}
	assistant := func(model string, parts ...providers.Part) providers.Message {
		return providers.Message{Role: providers.RoleAssistant, Model: model, Parts: parts}
	}
	for _, tt := range []struct {
		name     string
		compat   providers.Compat
		messages []providers.Message
		thinks   bool
	}{
		{"own", providers.Compat{}, []providers.Message{question, assistant("p/m", thought, call), result}, true},
		{"another model's", providers.Compat{}, []providers.Message{question, assistant("p/other", thought, call), result}, false},
		{"own, without thinking", providers.Compat{}, []providers.Message{question, assistant("p/m", call), result}, false},
		{"own, never signed", providers.Compat{}, []providers.Message{question, assistant("p/m", providers.Reasoning{Text: "hm"}, call), result}, false},
		{"own, of a server that signs nothing", providers.Compat{AllowEmptySignature: providers.FlagOn},
			[]providers.Message{question, assistant("p/m", providers.Reasoning{Text: "hm"}, call), result}, true},
		{"another model's, and a question since", providers.Compat{}, []providers.Message{question, assistant("p/other", call), result, question}, true},
		{"another model's, of one that decides by itself", providers.Compat{ForceAdaptiveThinking: providers.FlagOn},
			[]providers.Message{question, assistant("p/other", call), result}, true},
	} {
		m := providers.Model{Provider: "p", ID: "m", Reasoning: true, MaxTokens: 64000, Compat: tt.compat}
		got := encode(t, m, providers.Request{Messages: tt.messages}, providers.Options{ThinkingLevel: "low", MaxTokens: 100})
		if thinks := strings.Contains(got, `"thinking": {`); thinks != tt.thinks {
			t.Errorf("%s: got thinking %v, want %v", tt.name, thinks, tt.thinks)
		}
	}
}

// TestCompat covers servers that differ from the vendor's own.
func TestCompat(t *testing.T) {
	const on, off = providers.FlagOn, providers.FlagOff
	headers := func(m providers.Model) string {
		t.Helper()
		call, err := anthropicmessages.NewCodec(nil).Encode(m, providers.Request{}, providers.Options{SessionID: "s", APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s%s|%s|%s|%s", call.Header.Get("Authorization"), call.Header.Get("X-Session-Affinity"), call.Header.Get("X-Session-Id"), call.Header.Get("X-Api-Key"), call.Header.Get("Cf-Aig-Authorization"))
	}
	for want, m := range map[string]providers.Model{
		"||k|":        {},
		"s||k|":       {Compat: providers.Compat{SendSessionAffinityHeaders: on}},
		"|s|k|":       {Compat: providers.Compat{SendSessionAffinityHeaders: on, SessionAffinityFormat: "openrouter"}},
		"Bearer k|||": {Provider: providers.Copilot},
		"|||Bearer k": {Provider: "cloudflare-ai-gateway"},
	} {
		if got := headers(m); got != want {
			t.Errorf("headers %s, want %s", got, want)
		}
	}
	req := providers.Request{Tools: []providers.Tool{{Name: "f"}}}
	for marked, compat := range map[bool]providers.Compat{true: {}, false: {SupportsCacheControlOnTools: off}} {
		if got := encode(t, providers.Model{Compat: compat}, req, providers.Options{}); strings.Contains(got, "cache_control") != marked {
			t.Errorf("got a mark: %v, want %v", !marked, marked)
		}
	}
	assistant := providers.Message{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
		providers.Reasoning{Text: "hm"}, providers.Reasoning{Text: " "}, providers.Text{Text: "a"},
	}}
	history := []*providers.Block{providers.NewBlock([]providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "q"}}}, assistant})}
	for sent, compat := range map[bool]providers.Compat{true: {AllowEmptySignature: on}, false: {}} {
		m := providers.Model{Provider: "p", ID: "m", Reasoning: true, Compat: compat}
		got := encode(t, m, providers.Request{History: history, Messages: []providers.Message{{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "r"}}}}}, providers.Options{})
		if n := strings.Count(got, `"signature": ""`); (n == 1) != sent || n > 1 {
			t.Errorf("%d blocks were never signed, want some: %v, in %s", n, sent, got)
		}
	}
}

// covers: providers/197 foreign_ids, providers/197 left_empty, providers/197 same_side
// covers: providers/204 thinking_that_nothing_follows
func TestEncodeMessages(t *testing.T) {
	user := func(s string) providers.Message {
		return providers.Message{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: s}}}
	}
	assistant := func(parts ...providers.Part) providers.Message {
		return providers.Message{Role: providers.RoleAssistant, Model: "p/m", Parts: parts}
	}
	call := func(id, name string) providers.Message { return assistant(providers.ToolCall{ID: id, Name: name}) }
	result := func(id, text string) providers.Message {
		return providers.Message{Role: providers.RoleTool, Parts: []providers.Part{
			providers.ToolResult{CallID: id, Content: []providers.Part{providers.Text{Text: text}}},
		}}
	}
	long := strings.Repeat("x", 70)
	const cached = `"cache_control":{"type":"ephemeral"}`
	tests := []struct {
		name     string
		messages []providers.Message
		want     string
	}{
		{"none", nil, `[]`},
		{"same side", []providers.Message{user("a"), user("b"), assistant(providers.Text{Text: "c"}), assistant(providers.Text{Text: "d"})},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b",` + cached + `}]},
			{"role":"assistant","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}]`},
		{"left empty", []providers.Message{user("a"), assistant(providers.Text{Text: " \n"}, providers.Reasoning{Text: "unsigned"}), user("b")},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b",` + cached + `}]}]`},
		{"thinking that nothing follows", []providers.Message{user("a"), assistant(providers.Reasoning{Text: "hm", Signature: "s"}, providers.Text{Text: "c"},
			providers.Reasoning{Text: "so", Signature: "s"}, providers.Reasoning{Signature: `[{"type":"redacted_thinking","data":"r"}]`}), user("b"), assistant(providers.Reasoning{Text: "hm", Signature: "s"}), user("d")},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"c"}]},
			{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"d",` + cached + `}]}]`},
		{"broken signatures", []providers.Message{assistant(providers.Reasoning{Signature: "[oops"}, providers.Reasoning{Signature: `[{"type":"text","text":"no"}]`}, providers.Text{Text: "c"})},
			`[{"role":"assistant","content":[{"type":"text","text":"c"}]}]`},
		{"result is the last user block", []providers.Message{call("a", "f"), result("a", "r")},
			`[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"r"}],` + cached + `}]}]`},
		{"foreign ids", []providers.Message{call("a|b/ü", ""), result("a|b/ü", "1"), call("a|b/ü", "f.g"), result("a|b/ü", "2")},
			`[{"role":"assistant","content":[{"type":"tool_use","id":"a_b__","name":"_","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_b__","content":[{"type":"text","text":"1"}]}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"a_b___2","name":"f_g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_b___2","content":[{"type":"text","text":"2"}],` + cached + `}]}]`},
		{"long ids", []providers.Message{assistant(providers.ToolCall{ID: long + "1", Name: "f"}, providers.ToolCall{ID: long + "2", Name: "f"}), result(long+"2", "r")},
			`[{"role":"assistant","content":[{"type":"tool_use","id":"` + long[:64] + `","name":"f","input":{}},{"type":"tool_use","id":"` + long[:62] + `_2","name":"f","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"` + long[:64] + `","is_error":true,"content":[{"type":"text","text":"There is no result: the call was interrupted, and whether it took effect is unknown."}]},
				{"type":"tool_result","tool_use_id":"` + long[:62] + `_2","content":[{"type":"text","text":"r"}],` + cached + `}]}]`},
	}
	m := providers.Model{Provider: "p", ID: "m"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var body struct{ Messages json.RawMessage }
			if err := json.Unmarshal([]byte(encode(t, m, providers.Request{System: " ", Messages: tt.messages}, providers.Options{})), &body); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(providertest.Canonical(t, tt.want), providertest.Canonical(t, string(body.Messages))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEncodeBytes compares a request with streamed images byte by byte.
func TestEncodeBytes(t *testing.T) {
	req := providers.Request{System: "Be <brief>.", Messages: []providers.Message{
		{Role: providers.RoleUser, Parts: []providers.Part{
			providers.Text{Text: `See <this> & "that"`},
			providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")},
			providers.Image{MimeType: `image/jpeg; q="1"`, Content: providers.Bytes("four")},
		}},
	}}
	call, err := anthropicmessages.NewCodec(nil).Encode(providers.Model{ID: "m"}, req, providers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","max_tokens":8192,"stream":true,"system":[{"type":"text","text":"Be <brief>.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"See <this> & \"that\""},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"YWJj"}},{"type":"image","source":{"type":"base64","media_type":"image/jpeg; q=\"1\"","data":"Zm91cg=="},"cache_control":{"type":"ephemeral"}}]}]}` + "\n"
	if got := providertest.Sent(t, call); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEncodeBadSchema(t *testing.T) {
	req := providers.Request{Tools: []providers.Tool{{Name: "f", InputSchema: json.RawMessage(`{`)}}}
	if call, err := anthropicmessages.NewCodec(nil).Encode(providers.Model{}, req, providers.Options{}); err == nil {
		t.Errorf("got %s, want an error", providertest.Sent(t, call))
	}
}

// covers: providers/173
func TestHistoryIsTheSameBytes(t *testing.T) {
	providertest.RunHistory(t, anthropicmessages.NewCodec(nil), []string{
		"c2ln", `[{"type":"redacted_thinking","data":"eA=="},{"type":"thinking","thinking":"Hm","signature":"eQ=="}]`, "[",
	})
}

// FuzzSignatures decodes signatures of arbitrary format.
func FuzzSignatures(f *testing.F) {
	providertest.FuzzSignatures(f, anthropicmessages.NewCodec(nil), []string{"c2ln", `[{"type":"redacted_thinking","data":"eA=="}]`, `[{"type":"thinking","thinking":null,"signature":"x"}]`})
}
