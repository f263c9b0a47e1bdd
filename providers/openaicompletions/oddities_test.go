package openaicompletions_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

func delta(members string) string { return `{"choices":[{"delta":{` + members + `}}]}` }

// covers: providers/206
func TestOddities(t *testing.T) {
	providertest.RunOddities(t, providertest.Wire{
		Codec: openaicompletions.NewCodec(nil),
		Text:  func(s string) []string { return []string{delta(`"content":` + s)} },
		Call: func(name string, arguments ...string) []string {
			out := []string{delta(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"` + name + `","arguments":` + arguments[0] + `}}]`)}
			for _, a := range arguments[1:] {
				out = append(out, delta(`"tool_calls":[{"index":0,"function":{"arguments":`+a+`}}]`))
			}
			return out
		},
		End: func(word, usage string) []string {
			return []string{fmt.Sprintf(`{"choices":[{"delta":{},"finish_reason":%q}],"usage":%s}`, word, usage)}
		},
		Stop: "stop", Calls: "tool_calls", Count: "completion_tokens",
		Document: `{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":null},"finish_reason":"stop"}]}`,
	})
}

// TestOddCalls covers calls whose fragments are hard to assign.
// covers: providers/207
func TestOddCalls(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces []string
		want   []providers.ToolCallEnd
	}{
		{"one index, no ids", []string{
			`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\":1}"}}]`, `"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\":2}"}}]`,
		}, []providers.ToolCallEnd{end(0, "", "f", `{"a":1}`), end(1, "", "f", `{"a":2}`)}},
		{"one index, no ids, no arguments", []string{
			`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]`, `"tool_calls":[{"index":0,"function":{"name":"g","arguments":"{}"}}]`,
		}, []providers.ToolCallEnd{end(0, "", "f", `{}`), end(1, "", "g", `{}`)}},
		{"one index, no ids, in one chunk", []string{
			`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g","arguments":"{\"a\":1}"}}]`,
		}, []providers.ToolCallEnd{end(0, "", "f", `{}`), end(1, "", "g", `{"a":1}`)}},
		{"the name with each piece", []string{
			`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\""}}]`, `"tool_calls":[{"index":0,"function":{"name":"f","arguments":":1}"}}]`,
		}, []providers.ToolCallEnd{end(0, "", "f", `{"a":1}`)}},
		{"a name in pieces", []string{
			`"tool_calls":[{"index":0,"id":"c","function":{"name":"ge"}}]`, `"tool_calls":[{"index":0,"function":{"name":"t","arguments":"{}"}}]`,
		}, []providers.ToolCallEnd{end(0, "c", "get", `{}`)}},
		{"a name that grows", []string{
			`"tool_calls":[{"index":0,"id":"c","function":{"name":"ge"}}]`, `"tool_calls":[{"index":0,"id":"c","function":{"name":"get","arguments":"{}"}}]`,
		}, []providers.ToolCallEnd{end(0, "c", "get", `{}`)}},
		{"an index as text", []string{
			`"tool_calls":[{"index":"1","id":"c","function":{"name":"f","arguments":"{\"a\""}}]`, `"tool_calls":[{"index":1.0,"function":{"arguments":":1}"}}]`,
		}, []providers.ToolCallEnd{end(0, "c", "f", `{"a":1}`)}},
		{"one call, no list", []string{`"tool_calls":{"id":"c","function":{"name":"f","arguments":"{}"}}`}, []providers.ToolCallEnd{end(0, "c", "f", `{}`)}},
		{"the older form", []string{
			`"function_call":{"name":"f","arguments":""}`, `"function_call":{"arguments":"{\"a\""}`, `"function_call":{"arguments":":1}"}`,
		}, []providers.ToolCallEnd{end(0, "", "f", `{"a":1}`)}},
		{"arguments as an object again", []string{
			`"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":{}}}]`, `"tool_calls":[{"index":0,"function":{"arguments":{"a":1}}}]`,
		}, []providers.ToolCallEnd{end(0, "c", "f", `{"a":1}`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var payloads []string
			for _, p := range tt.pieces {
				payloads = append(payloads, delta(p))
			}
			payloads = append(payloads, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)
			providertest.ReadsCalls(t, openaicompletions.NewCodec(nil), providertest.Payloads(payloads...), tt.want...)
		})
	}
}

// TestOddMessages covers answers in unusual places.
// covers: providers/207
func TestOddMessages(t *testing.T) {
	stop := `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	hi := []providers.Event{providers.TextDelta{Text: "Hi"}}
	thoughtHi := []providers.Event{providers.ReasoningDelta{Text: "Hm"}, providers.ReasoningEnd{}, providers.TextDelta{Text: "Hi"}}
	for _, tt := range []struct {
		name     string
		payloads []string
		want     []providers.Event
	}{
		{"parts", []string{delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Hi"}]`), stop}, thoughtHi},
		{"parts in pieces", []string{delta(`"content":[{"type":"thinking","thinking":"Hm"}]`), delta(`"content":[{"type":"output_text","text":"Hi"},{"type":"image_url"},null]`), stop}, thoughtHi},
		{"a part", []string{delta(`"content":{"type":"text","text":"Hi"}`), stop}, hi},
		{"a refusal among parts", []string{delta(`"content":[{"type":"refusal","refusal":"Hi"}]`), stop}, hi},
		{"a message", []string{`{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}`}, hi},
		{"a message without a reason", []string{`{"choices":[{"message":{"content":"Hi"}}]}`, "[DONE]"}, hi},
		{"a message that repeats the deltas", []string{delta(`"content":"Hi"`), `{"choices":[{"delta":{},"message":{"content":"Hi"},"finish_reason":"stop"}]}`}, hi},
		{"a text", []string{`{"choices":[{"text":"Hi","finish_reason":"stop"}]}`}, hi},
		{"members of other types", []string{`{"id":7,"model":[],"object":{},"service_tier":1,"choices":[{"index":"0","logprobs":7,"delta":{"role":7,"content":"Hi","reasoning":7,"reasoning_details":"x"}}]}`, stop}, hi},
		{"a marker with spaces", []string{delta(`"content":"Hi"`), stop, " [DONE] "}, hi},
	} {
		t.Run(tt.name, func(t *testing.T) {
			providertest.Reads(t, openaicompletions.NewCodec(nil), providertest.Payloads(tt.payloads...), append(tt.want, providers.Done{StopReason: providers.StopStop})...)
		})
	}
}

func end(index int, id, name, arguments string) providers.ToolCallEnd {
	return providers.ToolCallEnd{Index: index, ID: id, Name: name, Arguments: []byte(arguments)}
}
