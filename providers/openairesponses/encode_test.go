package openairesponses_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// input returns the items of messages.
func input(t *testing.T, m providers.Model, messages ...providers.Message) string {
	t.Helper()
	var body struct{ Input json.RawMessage }
	sent := providertest.Encoded(t, openairesponses.NewCodec(nil), m, providers.Request{Messages: messages}, providers.Options{})
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatal(err)
	}
	return providertest.Canonical(t, string(body.Input))
}

func user(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleUser, Parts: parts}
}

func assistant(model string, parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleAssistant, Model: model, Parts: parts}
}

func results(parts ...providers.Part) providers.Message {
	return providers.Message{Role: providers.RoleTool, Parts: parts}
}

// TestCopilotHeaders checks the request headers of GitHub Copilot.
// covers: providers/119
func TestCopilotHeaders(t *testing.T) {
	for provider, want := range map[string]string{"github-copilot": "user", "p": ""} {
		call, err := openairesponses.NewCodec(nil).Encode(providers.Model{Provider: provider, ID: "m"}, providers.Request{}, providers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Header.Get("X-Initiator"); got != want {
			t.Errorf("%s: got %q, want %q", provider, got, want)
		}
	}
}

// covers: providers/41, providers/118, providers/185, providers/186
func TestEncodeWholeRequest(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "org/m", MaxTokens: 5, Input: []string{"text", "image"}, Reasoning: true, StoreResponses: true}
	req := providers.Request{
		System: "Be <brief>.",
		Tools: []providers.Tool{
			{Name: "add", Description: "Adds.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "now"},
		},
		Messages: []providers.Message{
			user(providers.Text{Text: "See"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")}),
			assistant("p/org/m",
				providers.Reasoning{Text: "One\n\nTwo", Signature: `{"encrypted_content":"enc1","summary":[3,3]}`},
				providers.Text{Text: "I look.", Signature: `{"phase":"commentary"}`},
				providers.Reasoning{Signature: `{"encrypted_content":"enc2"}`},
				providers.ToolCall{ID: "call_1", Name: "add", Arguments: json.RawMessage(`{"n": 12345678901234567890}`)}),
			results(providers.ToolResult{CallID: "call_1", Name: "add", Content: []providers.Part{
				providers.Text{Text: "3"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")},
			}}),
		},
	}
	want := `{
		"model": "org/m", "stream": true, "store": true, "include": ["reasoning.encrypted_content"],
		"reasoning": {"effort": "high", "summary": "auto"}, "max_output_tokens": 16, "prompt_cache_key": "conv_1",
		"tools": [
			{"type": "function", "name": "add", "description": "Adds.", "strict": false, "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}},
			{"type": "function", "name": "now", "strict": false, "parameters": {"type": "object", "properties": {}}}
		],
		"input": [
			{"role": "developer", "content": "Be <brief>."},
			{"role": "user", "content": [
				{"type": "input_text", "text": "See"},
				{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,YWJj"}
			]},
			{"type": "reasoning", "encrypted_content": "enc1", "summary": [{"type": "summary_text", "text": "One"}, {"type": "summary_text", "text": "Two"}]},
			{"type": "message", "role": "assistant", "status": "completed", "phase": "commentary",
				"content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
			{"type": "reasoning", "encrypted_content": "enc2", "summary": []},
			{"type": "function_call", "call_id": "call_1", "name": "add", "arguments": "{\"n\": 12345678901234567890}"},
			{"type": "function_call_output", "call_id": "call_1", "output": [
				{"type": "input_text", "text": "3"},
				{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,YWJj"}
			]}
		]
	}`
	temperature := 0.5
	got := providertest.Encoded(t, openairesponses.NewCodec(nil), m, req, providers.Options{ThinkingLevel: "high", SessionID: "conv_1", Temperature: &temperature})
	if diff := cmp.Diff(providertest.Canonical(t, want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// covers: providers/41, providers/117 long_in_the_cache, providers/117 not_long_in_the_cache, providers/176 never_off
// covers: providers/176 off, providers/183 does_not_reason, providers/183 off
func TestEncodeOptions(t *testing.T) {
	reasons := providers.Model{Provider: "p", ID: "m", Reasoning: true}
	with := func(change func(*providers.Model)) providers.Model {
		m := reasons
		change(&m)
		return m
	}
	temperature := 0.5
	const encrypted = `,"include":["reasoning.encrypted_content"]`
	for _, tt := range []struct {
		name string
		m    providers.Model
		o    providers.Options
		want string
	}{
		{"left to the vendor", reasons, providers.Options{}, encrypted},
		{"off", reasons, providers.Options{ThinkingLevel: "off"}, encrypted + `,"reasoning":{"effort":"none"}`},
		{"off in the vendor's word", with(func(m *providers.Model) { m.Thinking = providers.ThinkingMap{"off": new("zero")} }),
			providers.Options{ThinkingLevel: "off"}, encrypted + `,"reasoning":{"effort":"zero"}`},
		{"never off", with(func(m *providers.Model) { m.Thinking = providers.ThinkingMap{"off": nil} }), providers.Options{ThinkingLevel: "off"}, encrypted},
		{"never off where there is no word for it", with(func(m *providers.Model) { m.Provider = "github-copilot" }), providers.Options{ThinkingLevel: "off"}, encrypted},
		{"a word of the map", with(func(m *providers.Model) { m.Thinking = providers.ThinkingMap{"xhigh": new("extra")} }),
			providers.Options{ThinkingLevel: "xhigh"}, encrypted + `,"reasoning":{"effort":"extra","summary":"auto"}`},
		{"no effort", with(func(m *providers.Model) { m.Compat.SupportsReasoningEffort = providers.FlagOff }),
			providers.Options{ThinkingLevel: "low"}, encrypted},
		{"does not reason", providers.Model{Provider: "p", ID: "m"}, providers.Options{ThinkingLevel: "low", Temperature: &temperature}, `,"temperature":0.5`},
		{"limit", reasons, providers.Options{MaxTokens: 100}, encrypted + `,"max_output_tokens":100`},
		{"no limit", with(func(m *providers.Model) { m.Compat.SupportsMaxOutputTokens = providers.FlagOff }), providers.Options{MaxTokens: 100}, encrypted},
		{"long session", reasons, providers.Options{SessionID: strings.Repeat("s", 70)}, encrypted + `,"prompt_cache_key":"` + strings.Repeat("s", 64) + `"`},
		{"long in the cache", with(func(m *providers.Model) { m.LongCacheRetention = true }), providers.Options{}, encrypted + `,"prompt_cache_retention":"24h"`},
		{"not long in the cache", with(func(m *providers.Model) {
			m.LongCacheRetention, m.Compat.SupportsLongCacheRetention = true, providers.FlagOff
		}), providers.Options{}, encrypted},
		{"long in the cache in the newest words", with(func(m *providers.Model) {
			m.LongCacheRetention, m.Compat.SupportsExplicitPromptCacheMode = true, providers.FlagOn
		}), providers.Options{}, encrypted + `,"prompt_cache_options":{"ttl":"12h"}`},
		{"not long in the cache, whatever the words", with(func(m *providers.Model) {
			m.LongCacheRetention, m.Compat.SupportsExplicitPromptCacheMode, m.Compat.SupportsLongCacheRetention = true, providers.FlagOn, providers.FlagOff
		}), providers.Options{}, encrypted},
		{"newest words without long", with(func(m *providers.Model) { m.Compat.SupportsExplicitPromptCacheMode = providers.FlagOn }), providers.Options{}, encrypted},
		{"no cache key", with(func(m *providers.Model) { m.Compat.PromptCacheKeyMode = "disabled" }), providers.Options{SessionID: "s"}, encrypted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := providertest.Encoded(t, openairesponses.NewCodec(nil), tt.m, providers.Request{}, tt.o)
			want := `{"model":"m","stream":true,"store":false,"input":[]` + tt.want + `}`
			if diff := cmp.Diff(providertest.Canonical(t, want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// covers: providers/182
func TestEncodeRoles(t *testing.T) {
	for role, m := range map[string]providers.Model{
		"developer": {Provider: "p", ID: "m", Reasoning: true},
		"system":    {Provider: "p", ID: "m"},
	} {
		if got := providertest.Encoded(t, openairesponses.NewCodec(nil), m, providers.Request{System: "s"}, providers.Options{}); !strings.Contains(got, `"role": "`+role+`"`) {
			t.Errorf("want the role %s in %s", role, got)
		}
	}
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true, Compat: providers.Compat{SupportsDeveloperRole: providers.FlagOff}}
	if got := providertest.Encoded(t, openairesponses.NewCodec(nil), m, providers.Request{System: "s"}, providers.Options{}); !strings.Contains(got, `"role": "system"`) {
		t.Errorf("want the role system in %s", got)
	}
}

// TestEncodeHistory covers histories of other models and formats, and of crashes.
// covers: providers/184 of_another_model, providers/184 reasoning_at_the_end, providers/184 reasoning_before_a_message
// covers: providers/185 two_messages, providers/187 long_id, providers/188 empty_result
// covers: providers/188 failed_with_an_image, providers/204 reasoning_at_the_end
func TestEncodeHistory(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
	sealed := providers.Reasoning{Text: "hm", Signature: `{"encrypted_content":"e","summary":[2]}`}
	call := func(id string) providers.ToolCall {
		return providers.ToolCall{ID: id, Name: "f", Arguments: json.RawMessage(`{}`)}
	}
	const (
		message   = `{"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"a","annotations":[]}]}`
		reasoning = `{"type":"reasoning","encrypted_content":"e","summary":[{"type":"summary_text","text":"hm"}]}`
		call1     = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
		nothing   = `{"type":"function_call_output","call_id":"c1","output":"Error: There is no result: the call was interrupted, and whether it took effect is unknown."}`
	)
	long := strings.Repeat("functions.f:", 8)
	for _, tt := range []struct {
		name string
		in   []providers.Message
		want string
	}{
		{"reasoning before a message", []providers.Message{assistant("p/m", sealed, providers.Text{Text: "a"})}, reasoning + "," + message},
		{"of another model", []providers.Message{assistant("p/other", sealed, providers.Text{Text: "a", Signature: `{"phase":"commentary"}`})}, message},
		{"reasoning at the end", []providers.Message{assistant("p/m", providers.Text{Text: "a"}, sealed)}, message},
		{"reasoning alone", []providers.Message{assistant("p/m", sealed), user(providers.Text{Text: "b"})},
			`{"role":"user","content":[{"type":"input_text","text":"b"}]}`},
		{"never signed", []providers.Message{assistant("p/m", providers.Reasoning{Text: "hm"}, providers.Text{Text: "a"})}, message},
		{"signed in another format", []providers.Message{assistant("p/m", providers.Reasoning{Text: "hm", Signature: "reasoning_content"}, providers.Text{Text: "a", Signature: "sig"})}, message},
		{"lengths of another text", []providers.Message{assistant("p/m", providers.Reasoning{Text: "hmm", Signature: sealed.Signature}, providers.Text{Text: "a"})}, message},
		{"two messages", []providers.Message{assistant("p/m", providers.Text{Text: "a", Signature: "{}"}, providers.Text{Text: "a"})}, message + "," + message},
		{"one message of two texts", []providers.Message{assistant("p/m", providers.Text{Text: "a"}, providers.Text{})}, message},
		{"orphan call", []providers.Message{assistant("p/m", call("c1"))}, call1 + "," + nothing},
		{"result without call", []providers.Message{assistant("p/m", providers.Text{Text: "a"}), results(providers.ToolResult{CallID: "c9"})}, message},
		{"empty result", []providers.Message{assistant("p/m", call("c1")), results(providers.ToolResult{CallID: "c1"})},
			call1 + `,{"type":"function_call_output","call_id":"c1","output":"(no output)"}`},
		{"failed with an image", []providers.Message{assistant("p/m", call("c1")), results(providers.ToolResult{CallID: "c1", IsError: true, Content: []providers.Part{providers.Text{Text: "no"}}})},
			call1 + `,{"type":"function_call_output","call_id":"c1","output":"Error: no"}`},
		{"long id", []providers.Message{assistant("p/m", call(long)), results(providers.ToolResult{CallID: long, Content: []providers.Part{providers.Text{Text: "ok"}}})},
			`{"type":"function_call","call_id":"LONG","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"LONG","output":"ok"}`},
		{"raw reasoning", []providers.Message{assistant("p/m", providers.Reasoning{Text: "hm", Signature: `{"encrypted_content":"e","content":[2]}`}, providers.Text{Text: "a"})},
			`{"type":"reasoning","encrypted_content":"e","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},` + message},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sum := sha256.Sum256([]byte(long))
			want := providertest.Canonical(t, "["+strings.ReplaceAll(tt.want, "LONG", fmt.Sprintf("call_%x", sum[:20]))+"]")
			got := input(t, m, tt.in...)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// covers: providers/188
func TestEncodeImages(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "m", Input: []string{"text"}}
	got := input(t, m, user(providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")}))
	if strings.Contains(got, "input_image") || !strings.Contains(got, "left out") {
		t.Errorf("a model that takes text alone is sent %s", got)
	}
}

// covers: providers/173
func TestHistoryBlocks(t *testing.T) {
	providertest.RunHistory(t, openairesponses.NewCodec(nil), []string{
		`{"encrypted_content":"e"}`, `{"encrypted_content":"e","summary":[0]}`, `{"phase":"commentary"}`, "reasoning", "{",
	})
}

// FuzzSignatures decodes signatures of arbitrary format.
func FuzzSignatures(f *testing.F) {
	providertest.FuzzSignatures(f, openairesponses.NewCodec(nil), []string{`{"encrypted_content":"e","summary":[2]}`, `{"encrypted_content":"e","content":[0,1]}`, `{"phase":"commentary"}`})
}
