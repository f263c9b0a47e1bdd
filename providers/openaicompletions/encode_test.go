package openaicompletions_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestCopilotHeaders checks the request headers of GitHub Copilot.
// covers: providers/119
func TestCopilotHeaders(t *testing.T) {
	for provider, want := range map[string]string{"github-copilot": "user", "p": ""} {
		call, err := openaicompletions.NewCodec(nil).Encode(providers.Model{Provider: provider, ID: "m"}, providers.Request{}, providers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Header.Get("X-Initiator"); got != want {
			t.Errorf("%s: got %q, want %q", provider, got, want)
		}
	}
}

// covers: providers/118, providers/198, providers/199
func TestEncodeWholeRequest(t *testing.T) {
	m := providers.Model{Provider: "p", ID: "org/m", BaseURL: "https://llm.example/v1", Input: []string{"text", "image"}, Reasoning: true}
	req := providers.Request{
		System: "Be <brief>.",
		Tools: []providers.Tool{
			{Name: "add", Description: "Adds.", InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
			{Name: "now"},
		},
		Messages: []providers.Message{
			{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "See"}, providers.Image{MimeType: "image/png", Content: providers.Bytes("abc")}}},
			{Role: providers.RoleAssistant, Model: "p/org/m", Parts: []providers.Part{
				providers.Reasoning{Text: "Hm", Signature: "reasoning_content"},
				providers.ToolCall{ID: "c0", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
				providers.ToolCall{ID: "c1", Name: "now", Arguments: json.RawMessage(`{}`)},
			}},
			{Role: providers.RoleTool, Parts: []providers.Part{
				providers.ToolResult{CallID: "c0", Content: []providers.Part{providers.Text{Text: "ok"}, providers.Image{MimeType: "image/gif", Content: providers.Bytes("x")}}},
				providers.ToolResult{CallID: "c1", Content: []providers.Part{providers.Text{Text: "no clock"}}, IsError: true},
			}},
			{Role: providers.RoleAssistant, Parts: []providers.Part{providers.Text{Text: "Done."}}},
			{Role: providers.RoleUser, Parts: []providers.Part{providers.Text{Text: "one"}, providers.Text{Text: "two"}}},
		},
	}
	got := providertest.Encoded(t, openaicompletions.NewCodec(nil), m, req, providers.Options{
		MaxTokens: 100, Temperature: new(0.0), ThinkingLevel: providers.ThinkingMedium, SessionID: "s",
	})
	want := providertest.Canonical(t, `{
		"model": "org/m", "stream": true, "stream_options": {"include_usage": true},
		"max_tokens": 100, "temperature": 0, "reasoning_effort": "medium",
		"tools": [
			{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}},
			{"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
		],
		"messages": [
			{"role": "system", "content": "Be <brief>."},
			{"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}}]},
			{"role": "assistant", "content": null, "reasoning_content": "Hm", "tool_calls": [
				{"id": "c0", "type": "function", "function": {"name": "add", "arguments": "{\"n\":12345678901234567890}"}},
				{"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
			]},
			{"role": "tool", "tool_call_id": "c0", "content": "ok(Image 1 below.)"},
			{"role": "tool", "tool_call_id": "c1", "content": "Error: no clock"},
			{"role": "user", "content": [{"type": "text", "text": "Images the tools returned:"}, {"type": "image_url", "image_url": {"url": "data:image/gif;base64,eA=="}}]},
			{"role": "assistant", "content": "Done."},
			{"role": "user", "content": "one\ntwo"}
		]
	}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// covers: providers/201
func TestEncodeChoices(t *testing.T) {
	field := openaicompletions.Options{MaxTokensField: openaicompletions.FieldMaxCompletionTokens}
	tests := []struct {
		name    string
		codec   *openaicompletions.Options
		baseURL string
		reason  bool
		o       providers.Options
		want    string
	}{
		{"nothing", nil, "http://x/", true, providers.Options{}, `{}`},
		{"limit elsewhere", nil, "http://x/", false, providers.Options{MaxTokens: 5}, `{"max_tokens":5}`},
		{"limit there", nil, "https://api.openai.com/v1", false, providers.Options{MaxTokens: 5}, `{"max_completion_tokens":5,"store":false}`},
		{"limit at a resource", nil, "https://r.openai.azure.com/openai/v1", false, providers.Options{MaxTokens: 5}, `{"max_completion_tokens":5,"store":false}`},
		{"limit at a lookalike", nil, "https://notopenai.com/v1", false, providers.Options{MaxTokens: 5}, `{"max_tokens":5}`},
		{"limit by option", &field, "http://x/", false, providers.Options{MaxTokens: 5}, `{"max_completion_tokens":5}`},
		{"cache key there", nil, "https://api.openai.com/v1", false, providers.Options{SessionID: "s"}, `{"prompt_cache_key":"s","store":false}`},
		{"cache key elsewhere", nil, "http://x/", false, providers.Options{SessionID: "s"}, `{}`},
		{"off", nil, "http://x/", true, providers.Options{ThinkingLevel: providers.ThinkingOff}, `{}`},
		{"minimal", nil, "http://x/", true, providers.Options{ThinkingLevel: providers.ThinkingMinimal}, `{"reasoning_effort":"low"}`},
		{"max", nil, "http://x/", true, providers.Options{ThinkingLevel: providers.ThinkingMax}, `{"reasoning_effort":"high"}`},
		{"does not reason", nil, "http://x/", false, providers.Options{ThinkingLevel: providers.ThinkingMax}, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := providers.Model{Provider: "p", ID: "m", BaseURL: tt.baseURL, Reasoning: tt.reason}
			var got, want map[string]any
			body := providertest.Encoded(t, openaicompletions.NewCodec(tt.codec), m, providers.Request{}, tt.o)
			for s, into := range map[string]*map[string]any{body: &got, tt.want: &want} {
				if err := json.Unmarshal([]byte(s), into); err != nil {
					t.Fatal(err)
				}
			}
			for _, always := range []string{"model", "messages", "stream", "stream_options"} {
				if _, ok := got[always]; !ok {
					t.Errorf("%s is missing", always)
				}
				delete(got, always)
			}
			if diff := cmp.Diff(want, got); diff != "" {
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
	call, err := openaicompletions.NewCodec(nil).Encode(providers.Model{ID: "m"}, req, providers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":[{"type":"text","text":"See <this> & \"that\""},{"type":"image_url","image_url":{"url":"data:image/png;base64,YWJj"}},{"type":"image_url","image_url":{"url":"data:image/jpeg; q=\"1\";base64,Zm91cg=="}}]}],"stream":true,"stream_options":{"include_usage":true}}` + "\n"
	if got := providertest.Sent(t, call); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEncodeBadSchema(t *testing.T) {
	req := providers.Request{Tools: []providers.Tool{{Name: "f", InputSchema: json.RawMessage(`{`)}}}
	if call, err := openaicompletions.NewCodec(nil).Encode(providers.Model{}, req, providers.Options{}); err == nil {
		t.Errorf("got %s, want an error", providertest.Sent(t, call))
	}
}

// covers: providers/173
func TestHistoryIsTheSameBytes(t *testing.T) {
	providertest.RunHistory(t, openaicompletions.NewCodec(nil), []string{"reasoning_content", "reasoning", "unknown"})
}
