package openaicompletions_test

import (
	"cmp"
	"encoding/json"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// TestAttachedToCalls: members that a server attaches to a call are returned with the call verbatim,
// to the same server only.
// covers: providers/210
func TestAttachedToCalls(t *testing.T) {
	const gemini = `"extra_content":{"google":{"thought_signature":"Ej<QK"}}`
	const lite = `"provider_specific_fields":{"thought_signature":"Ej"}`
	call := func(members string) string {
		return delta(`"tool_calls":[{"id":"jm4","type":"function","function":{"name":"get","arguments":"{}"}` + members + `}]`)
	}
	for name, tt := range map[string]struct {
		payloads []string
		want     string
	}{
		"Gemini":              {[]string{call(`,` + gemini)}, `{` + gemini + `}`},
		"LiteLLM":             {[]string{call(`,` + lite)}, `{` + lite + `}`},
		"both":                {[]string{call(`,` + lite + `,` + gemini)}, `{` + gemini + `,` + lite + `}`},
		"in a later piece":    {[]string{call(``), delta(`"tool_calls":[{"id":"jm4",` + gemini + `}]`)}, `{` + gemini + `}`},
		"null":                {[]string{call(`,"extra_content":null`)}, ``},
		"nothing":             {[]string{call(``)}, ``},
		"repeated after null": {[]string{call(`,` + gemini), delta(`"tool_calls":[{"id":"jm4","extra_content":null}]`)}, `{` + gemini + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			signed := end(0, "jm4", "get", `{}`)
			signed.Signature = tt.want
			payloads := append(tt.payloads, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, "[DONE]")
			providertest.ReadsCalls(t, openaicompletions.NewCodec(nil), providertest.Payloads(payloads...), signed)

			m := providers.Model{Provider: "p", ID: "m"}
			for model, want := range map[string]string{"p/m": cmp.Or(tt.want, "{}"), "q/m": "{}"} {
				body := providertest.Encoded(t, openaicompletions.NewCodec(nil), m, providers.Request{Messages: []providers.Message{
					{Role: providers.RoleAssistant, Model: model, Parts: []providers.Part{providers.ToolCall{ID: "jm4", Name: "get", Arguments: json.RawMessage(`{}`), Signature: signed.Signature}}},
					{Role: providers.RoleTool, Parts: []providers.Part{providers.ToolResult{CallID: "jm4", Content: []providers.Part{providers.Text{Text: "ok"}}}}},
				}}, providers.Options{})
				var sent struct {
					Messages []struct {
						ToolCalls []map[string]any `json:"tool_calls"`
					}
				}
				if err := json.Unmarshal([]byte(body), &sent); err != nil {
					t.Fatal(err)
				}
				got := sent.Messages[0].ToolCalls[0]
				for _, member := range []string{"id", "type", "function"} {
					delete(got, member)
				}
				if encoded, err := json.Marshal(got); err != nil || providertest.Canonical(t, string(encoded)) != providertest.Canonical(t, want) {
					t.Errorf("call of %s: got %s, %v, want %s", model, encoded, err, want)
				}
			}
		})
	}
}
