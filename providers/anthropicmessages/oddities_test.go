package anthropicmessages_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/206
func TestOddities(t *testing.T) {
	providertest.RunOddities(t, providertest.Wire{
		Codec: anthropicmessages.NewCodec(nil),
		Text: func(s string) []string {
			return []string{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + s + `}}`}
		},
		Call: func(name string, arguments ...string) []string {
			out := []string{`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"` + name + `","input":{}}}`}
			for _, a := range arguments {
				out = append(out, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":`+a+`}}`)
			}
			return append(out, `{"type":"content_block_stop","index":1}`)
		},
		End: func(word, usage string) []string {
			return []string{fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":%s}`, word, usage)}
		},
		Stop: "end_turn", Calls: "tool_use", Count: "output_tokens",
		Document: `{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}`,
	})
}

// TestDecodeWithoutMessageStop ends a response after its stop_reason by closing the connection, or by
// the marker of another format.
// covers: providers/208
func TestDecodeWithoutMessageStop(t *testing.T) {
	for _, tt := range []struct {
		payloads []string
		kind     providers.ErrorKind
	}{
		{[]string{textStart, textDelta("a"), messageEnd("end_turn")}, ""},
		{[]string{textStart, textDelta("a"), messageEnd("end_turn"), "[DONE]"}, ""},
		{[]string{textStart, textDelta("a"), messageEnd("end_turn"), messageStop, "[DONE]"}, ""},
		{[]string{textStart, textDelta("a"), "[DONE]"}, providers.KindTruncated},
		{[]string{textStart, textDelta("a")}, providers.KindTruncated},
	} {
		events, failure := read(t, nil, tt.payloads...)
		if (failure == nil) != (tt.kind == "") || failure != nil && failure.Kind != tt.kind || len(events) == 0 || events[0] != providers.Event(providers.TextDelta{Text: "a"}) {
			t.Errorf("%q: got %v, %v, want kind %q", tt.payloads, events, failure, tt.kind)
		}
	}
}

// TestDecodeEarlyDeltas reads deltas whose block start is missing or invalid.
// covers: providers/206
func TestDecodeEarlyDeltas(t *testing.T) {
	for _, tt := range []struct {
		payloads []string
		want     []providers.Event
	}{
		{[]string{delta(0, "text_delta", "text", "a"), delta(0, "text_delta", "text", "b")}, []providers.Event{providers.TextDelta{Text: "a"}, providers.TextDelta{Text: "b"}}},
		{[]string{delta(0, "thinking_delta", "thinking", "a"), delta(0, "signature_delta", "signature", "s"), delta(1, "text_delta", "text", "b")},
			[]providers.Event{providers.ReasoningDelta{Text: "a"}, providers.ReasoningEnd{Signature: "s"}, providers.TextDelta{Text: "b"}}},
		{[]string{start(0, `{"type":"text","text":"a","citations":7,"signature":[]}`)}, []providers.Event{providers.TextDelta{Text: "a"}}},
	} {
		providertest.Reads(t, anthropicmessages.NewCodec(nil), providertest.Payloads(append(tt.payloads, messageEnd("end_turn"))...), append(tt.want, providers.Done{StopReason: providers.StopStop})...)
	}
}
