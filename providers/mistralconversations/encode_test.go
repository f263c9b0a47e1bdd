package mistralconversations_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/mistralconversations"
	"github.com/parleyrun/parley/providers/providertest"
)

func user(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleUser, Parts: parts}
}

// covers: providers/155
func TestEncodeWholeRequest(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "m", Input: []string{"text", "image"}, Reasoning: true}
	req := providers.Request{
		System: "Be <brief>.",
		Tools: []providers.Tool{
			{Name: "add", Description: "Adds.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "now"},
		},
		Messages: []providers.Message{
			user(providers.Text{Text: "See"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")}),
			{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{
				providers.Reasoning{Text: "Hm"}, providers.Text{Text: "I add."}, providers.Reasoning{Text: "Again"},
				providers.ToolCall{ID: "wyFNfgjhN", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
				providers.ToolCall{ID: "c1", Name: "no clock!", Arguments: json.RawMessage(`{}`)},
			}},
			{Role: providers.RoleTool, Parts: []providers.Part{
				providers.ToolResult{CallID: "wyFNfgjhN", Content: []providers.Part{providers.Text{Text: "ok"}, providers.Image{MimeType: "image/gif", Content: providers.Bytes("x")}}},
				providers.ToolResult{CallID: "c1", Content: []providers.Part{providers.Text{Text: "no clock"}}, IsError: true},
			}},
			user(providers.Text{Text: "one"}, providers.Text{Text: "two"}),
			{Role: providers.RoleAssistant, Parts: []providers.Part{providers.Text{Text: "Do"}, providers.Text{Text: "ne."}}},
			{Role: providers.RoleAssistant, Model: "p/m", Parts: []providers.Part{providers.ToolCall{ID: "wyFNfgjhN", Name: "add"}}},
			{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "wyFNfgjhN"}}},
		},
	}
	got := providertest.Encoded(t, mistralconversations.NewCodec(nil), m, req, providers.Options{
		MaxTokens: 100, Temperature: new(0.0), ThinkingLevel: providers.ThinkingMedium, SessionID: "s",
	})
	want := providertest.Canonical(t, `{
		"model": "m", "stream": true, "max_tokens": 100, "temperature": 0, "prompt_mode": "reasoning", "prompt_cache_key": "s",
		"tools": [
			{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}, "strict": false}},
			{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}, "strict": false}}
		],
		"messages": [
			{"role": "system", "content": "Be <brief>."},
			{"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": "data:image/png;base64,YWJj"}]},
			{"role": "assistant", "content": [
				{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "I add."},
				{"type": "thinking", "thinking": [{"type": "text", "text": "Again"}]}
			], "tool_calls": [
				{"id": "wyFNfgjhN", "type": "function", "function": {"name": "add", "arguments": "{\"n\":12345678901234567890}"}},
				{"id": "H8RnrqJqm", "type": "function", "function": {"name": "no_clock_", "arguments": "{}"}}
			]},
			{"role": "tool", "tool_call_id": "wyFNfgjhN", "name": "add", "content": [{"type": "text", "text": "ok"}, {"type": "image_url", "image_url": "data:image/gif;base64,eA=="}]},
			{"role": "tool", "tool_call_id": "H8RnrqJqm", "name": "no_clock_", "content": "Error:\nno clock"},
			{"role": "assistant", "content": "I have seen the results of the tools."},
			{"role": "user", "content": "one\ntwo"},
			{"role": "assistant", "content": "Done."},
			{"role": "assistant", "tool_calls": [{"id": "wyFNfgjhN", "type": "function", "function": {"name": "add", "arguments": "{}"}}]},
			{"role": "tool", "tool_call_id": "wyFNfgjhN", "name": "add", "content": "(no output)"}
		]
	}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// covers: providers/154
func TestEncodeThinking(t *testing.T) {
	levels := providers.ThinkingMap{"off": new("none"), "minimal": nil, "low": nil, "medium": nil, "high": new("high"), "max": new("max")}
	always := providers.ThinkingMap{"off": nil, "low": new("low"), "high": new("high")}
	for name, tt := range map[string]struct {
		levels    providers.ThinkingMap
		level     providers.ThinkingLevel
		unreasons bool
		want      string
	}{
		"left to the vendor":         {levels, "", false, ``},
		"off":                        {levels, providers.ThinkingOff, false, `"reasoning_effort":"none"`},
		"off, unlisted":              {providers.ThinkingMap{"high": new("high")}, providers.ThinkingOff, false, `"reasoning_effort":"none"`},
		"off, of one that always":    {always, providers.ThinkingOff, false, ``},
		"a level of the map":         {always, providers.ThinkingLow, false, `"reasoning_effort":"low"`},
		"one that the map rules out": {levels, providers.ThinkingLow, false, `"reasoning_effort":"high"`},
		"one that it does not list":  {always, providers.ThinkingMedium, false, `"reasoning_effort":"medium"`},
		"more than high":             {levels, providers.ThinkingMax, false, `"reasoning_effort":"max"`},
		"no map":                     {nil, providers.ThinkingLow, false, `"prompt_mode":"reasoning"`},
		"no map, off":                {nil, providers.ThinkingOff, false, ``},
		"does not reason":            {levels, providers.ThinkingHigh, true, ``},
	} {
		t.Run(name, func(t *testing.T) {
			m := providers.Model{Provider: "p", ID: "m", Reasoning: !tt.unreasons, Thinking: tt.levels}
			got := providertest.Encoded(t, mistralconversations.NewCodec(nil), m, providertest.Ask("q"), providers.Options{ThinkingLevel: tt.level})
			extra := ""
			if tt.want != "" {
				extra = "," + tt.want
			}
			want := providertest.Canonical(t, `{"model":"m","stream":true,"messages":[{"role":"user","content":"q"}]`+extra+`}`)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPromptCacheKeyCanBeOmitted(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "m", Compat: providers.Compat{PromptCacheKeyMode: "disabled"}}
	if got := providertest.Encoded(t, mistralconversations.NewCodec(nil), m, providertest.Ask("q"), providers.Options{SessionID: "s"}); strings.Contains(got, "cache") {
		t.Errorf("got %s", got)
	}
}

// TestCallIDs: invalid ids become nine letters and digits, distinct within a message and the same in
// call and result.
// covers: providers/151
func TestCallIDs(t *testing.T) {
	ids := []string{"wyFNfgjhN", "call_01", "functions.add:0", "", "wyFNfgjh", "wyFNfgjhN2", "wyFNfgj-N", "größe1"}
	content, results := providers.Message{Role: providers.RoleAssistant}, providers.Message{Role: providers.RoleTool}
	for _, id := range ids {
		content.Parts = append(content.Parts, providers.ToolCall{ID: id, Name: "f"})
		results.Parts = append(results.Parts, providers.ToolResult{CallID: id, Content: []providers.Part{providers.Text{Text: "of " + id}}})
	}
	sent := func() (called, answered []string) {
		var body struct {
			Messages []struct {
				ToolCallID string                `json:"tool_call_id"`
				ToolCalls  []struct{ ID string } `json:"tool_calls"`
			}
		}
		req := providers.Request{Messages: []providers.Message{user(providers.Text{Text: "q"}), content, results}}
		encoded := providertest.Encoded(t, mistralconversations.NewCodec(nil), providers.Model{Provider: "p", ID: "m"}, req, providers.Options{})
		if err := json.Unmarshal([]byte(encoded), &body); err != nil {
			t.Fatal(err)
		}
		for _, m := range body.Messages {
			for _, c := range m.ToolCalls {
				called = append(called, c.ID)
			}
			if m.ToolCallID != "" {
				answered = append(answered, m.ToolCallID)
			}
		}
		return called, answered
	}
	called, answered := sent()
	if diff := cmp.Diff(called, answered); diff != "" || len(called) != len(ids) {
		t.Errorf("calls and results (-calls +results):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, id := range called {
		if len(id) != 9 || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || seen[id] {
			t.Errorf("got id %q, want nine letters and digits, unique", id)
		}
		seen[id] = true
	}
	if called[0] != ids[0] {
		t.Errorf("vendor's own id: got %q", called[0])
	}
	if again, _ := sent(); !cmp.Equal(again, called) {
		t.Errorf("got ids %q and then %q", called, again)
	}
	// An id that equals the replacement of another is replaced too.
	content.Parts[0], results.Parts[0] = providers.ToolCall{ID: called[1], Name: "f"}, providers.ToolResult{CallID: called[1]}
	if both, answered := sent(); both[0] == both[1] || !cmp.Equal(both, answered) {
		t.Errorf("got ids %q", both)
	}
}

// TestModelSpeaksAfterResults: the message is also inserted between blocks, and never after an answer
// of the model.
// covers: providers/152
func TestModelSpeaksAfterResults(t *testing.T) {
	called := []providers.Message{
		user(providers.Text{Text: "q"}), {Role: providers.RoleAssistant, Parts: []providers.Part{providers.ToolCall{ID: "c", Name: "f"}}},
		{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "c"}}},
	}
	thought := providers.Message{Role: providers.RoleAssistant, Parts: []providers.Part{providers.Reasoning{Text: "of another model"}}}
	for name, tt := range map[string]struct {
		req   providers.Request
		roles string
	}{
		"one list":         {providers.Request{Messages: append(called[:3:3], user(providers.Text{Text: "and"}))}, "user assistant tool assistant user"},
		"blocks":           {providers.Request{History: []*providers.Block{providers.NewBlock(called)}, Messages: providertest.Ask("and").Messages}, "user assistant tool assistant user"},
		"answered":         {providers.Request{Messages: append(called[:3:3], providers.Message{Role: providers.RoleAssistant, Parts: []providers.Part{providers.Text{Text: "a"}}}, user(providers.Text{Text: "and"}))}, "user assistant tool assistant user"},
		"nothing is left":  {providers.Request{Messages: append(called[:3:3], thought, user(providers.Text{Text: "and"}))}, "user assistant tool assistant user"},
		"the results last": {providers.Request{Messages: called}, "user assistant tool"},
	} {
		t.Run(name, func(t *testing.T) {
			var body struct{ Messages []struct{ Role string } }
			encoded := providertest.Encoded(t, mistralconversations.NewCodec(nil), providers.Model{Provider: "p", ID: "m"}, tt.req, providers.Options{})
			if err := json.Unmarshal([]byte(encoded), &body); err != nil {
				t.Fatal(err)
			}
			var roles []string
			for _, m := range body.Messages {
				roles = append(roles, m.Role)
			}
			if got := strings.Join(roles, " "); got != tt.roles {
				t.Errorf("got %s, want %s", got, tt.roles)
			}
		})
	}
}

func TestEncodeBadSchema(t *testing.T) {
	req := providers.Request{Tools: []providers.Tool{{Name: "f", InputSchema: json.RawMessage(`{`)}}}
	if call, err := mistralconversations.NewCodec(nil).Encode(providers.Model{}, req, providers.Options{}); err == nil {
		t.Errorf("got %s, want an error", providertest.Sent(t, call))
	}
}

// covers: providers/173
func TestHistoryIsTheSameBytes(t *testing.T) {
	providertest.RunHistory(t, mistralconversations.NewCodec(nil), nil)
}
