package openairesponses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

// covers: providers/206
func TestOddities(t *testing.T) {
	providertest.RunOddities(t, providertest.Wire{
		Codec: openairesponses.NewCodec(nil),
		Text: func(s string) []string {
			return []string{`{"type":"response.output_text.delta","item_id":"m1","output_index":0,"content_index":0,"delta":` + s + `}`}
		},
		Call: func(name string, arguments ...string) []string {
			item := `{"id":"f1","type":"function_call","call_id":"c","name":"` + name + `","arguments":""}`
			out := []string{added(1, item)}
			for _, a := range arguments {
				out = append(out, `{"type":"response.function_call_arguments.delta","item_id":"f1","output_index":1,"delta":`+a+`}`)
			}
			return append(out, done(1, item))
		},
		End: func(_, usage string) []string {
			return []string{`{"type":"response.completed","response":{"status":"completed","usage":` + usage + `}}`}
		},
		FixedWords: true, Count: "output_tokens",
		Document: `{"object":"response","error":null,"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}]}`,
	})
}

// TestOddItems covers items that start late, share an index, or have several ids.
// covers: providers/206
func TestOddItems(t *testing.T) {
	text := func(id string, index int, s string) string {
		return fmt.Sprintf(`{"type":"response.output_text.delta","item_id":%q,"output_index":%d,"content_index":0,"delta":%q}`, id, index, s)
	}
	message := func(id, s string) string {
		return fmt.Sprintf(`{"id":%q,"type":"message","content":[{"type":"output_text","text":%q}]}`, id, s)
	}
	call := func(id, callID, arguments string) string {
		return fmt.Sprintf(`{"id":%q,"type":"function_call","call_id":%q,"name":"f","arguments":%q}`, id, callID, arguments)
	}
	arguments := func(id string, index int, s string) string {
		return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","item_id":%q,"output_index":%d,"delta":%q}`, id, index, s)
	}
	with := func(output ...string) string {
		return `{"type":"response.completed","response":{"status":"completed","output":[` + strings.Join(output, ",") + `]}}`
	}
	for _, tt := range []struct {
		name     string
		payloads []string
		want     string
	}{
		{"a delta before its item, which stands at the end", []string{text("m1", 0, "pong"), with(message("m1", "pong"))}, "text pong"},
		{"a delta before its item, which is added", []string{text("m1", 0, "po"), added(0, message("m1", "")), text("m1", 0, "ng"), done(0, message("m1", "pong")), with(message("m1", "pong"))}, "text pong"},
		{"a delta before its item, by another id", []string{text("x", 0, "po"), added(0, message("y", "")), text("z", 0, "ng"), done(0, message("w", "pong")), with(message("v", "pong"))}, "text pong"},
		{"deltas alone", []string{text("m1", 0, "pong"), with()}, "text pong"},
		{"deltas without ids and places", []string{`{"type":"response.output_text.delta","delta":"pong"}`, with(message("", "pong"))}, "text pong"},
		{"reasoning before its item", []string{thoughtDelta(0, 0, "hm"), text("m", 1, "a"), with(`{"type":"reasoning","summary":[{"text":"hm"}]}`, message("m", "a"))}, "reasoning hm|text a"},
		{"arguments before their item", []string{arguments("f1", 0, `{"a"`), added(0, call("f1", "c", "")), arguments("f1", 0, `:1}`), done(0, call("f1", "c", `{"a":1}`)), with()}, `call c{"a":1}`},
		{"arguments before their item, which stands at the end", []string{arguments("f1", 0, `{"a":1}`), with(call("f1", "c", `{"a":1}`))}, `call c{"a":1}`},
		{"a call whose arguments are done", []string{added(0, call("f1", "c", "")), `{"type":"response.function_call_arguments.done","item_id":"f1","output_index":0,"arguments":"{}"}`, with()}, `call c{}`},
		{"a text that is done", []string{`{"type":"response.output_text.done","item_id":"m1","output_index":0,"content_index":0,"text":"pong"}`, with()}, "text pong"},
		{"a text that is done, behind its deltas", []string{text("m1", 0, "po"), `{"type":"response.output_text.done","item_id":"m1","output_index":0,"content_index":0,"text":"pong"}`, with()}, "text pong"},
		{"a part that is done", []string{`{"type":"response.content_part.done","item_id":"m1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"pong"}}`, with()}, "text pong"},
		{"a refusal that is done", []string{`{"type":"response.refusal.done","item_id":"m1","output_index":0,"content_index":0,"refusal":"no"}`, with()}, "text no"},
		{"two messages in one place, one after the other", []string{
			added(0, message("m1", "")), text("m1", 0, "a"), done(0, message("m1", "a")), added(0, message("m2", "")), text("m2", 0, "b"), done(0, message("m2", "b")), with(message("m1", "a"), message("m2", "b")),
		}, "text a{}|text b"},
		{"two messages in one place, without ids", []string{
			added(0, message("", "")), textDelta(0, "a"), done(0, message("", "a")), added(0, message("", "")), textDelta(0, "b"), done(0, message("", "b")), with(message("", "a"), message("", "b")),
		}, "text a{}|text b"},
		{"two messages in one place, done alone", []string{done(0, message("m1", "a")), done(0, message("m2", "b")), with(message("m1", "a"), message("m2", "b"))}, "text a{}|text b"},
		{"two messages in one place, by deltas", []string{text("m1", 0, "a"), text("m1", 0, "a"), text("m2", 0, "b"), with(message("m1", "aa"), message("m2", "b"))}, "text aab"},
		{"a message and a call in one place", []string{
			added(0, message("m1", "")), added(0, call("f1", "c", "")), text("m1", 0, "a"), arguments("f1", 0, `{"a":1}`), done(0, call("f1", "c", `{"a":1}`)), done(0, message("m1", "a")), with(message("m1", "a"), call("f1", "c", `{"a":1}`)),
		}, `text a|call c{"a":1}`},
		{"reasoning and a message in one place", []string{
			added(0, `{"id":"r","type":"reasoning"}`), thoughtDelta(0, 0, "hm"), added(0, message("m1", "")), done(0, `{"id":"r","type":"reasoning","summary":[{"text":"hm"}]}`), text("m1", 0, "a"), done(0, message("m1", "a")), with(),
		}, "reasoning hm|text a"},
		{"two calls in one place, at once", []string{
			added(0, call("f1", "c", "")), added(0, call("f2", "d", "")), arguments("f1", 0, `{"a":`), arguments("f2", 0, `{"b":`), arguments("f1", 0, `1}`), arguments("f2", 0, `2}`),
			done(0, call("f1", "c", `{"a":1}`)), done(0, call("f2", "d", `{"b":2}`)), with(call("f1", "c", `{"a":1}`), call("f2", "d", `{"b":2}`)),
		}, `call c{"a":1}|call d{"b":2}`},
		{"two calls in one place, without ids of items", []string{
			added(0, call("", "c", "")), argumentsDelta(0, `{"a":1}`), done(0, call("", "c", `{"a":1}`)), added(0, call("", "d", "")), argumentsDelta(0, `{"b":2}`), done(0, call("", "d", `{"b":2}`)), with(),
		}, `call c{"a":1}|call d{"b":2}`},
		{"two calls in one place, done alone", []string{done(0, call("", "c", `{"a":1}`)), done(0, call("", "d", `{"b":2}`)), with(call("", "c", `{"a":1}`), call("", "d", `{"b":2}`))}, `call c{"a":1}|call d{"b":2}`},
		{"an item that is added twice", []string{added(0, message("m1", "")), text("m1", 0, "a"), added(0, message("m1", "")), text("m1", 0, "b"), done(0, message("m1", "ab")), with()}, "text ab"},
		{"an item that is done twice", []string{done(0, message("m1", "a")), done(0, message("m1", "a")), with(message("m1", "a"))}, "text a"},
		{"members of other types", []string{`{"type":"response.output_text.delta","item_id":7,"output_index":"0","content_index":null,"sequence_number":"x","delta":"pong"}`, with(`{"id":7,"type":"message","role":1,"phase":{},"content":[{"type":"output_text","text":"pong","annotations":7}]}`)}, "text pong"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := saidShort(t, tt.payloads...); got != tt.want {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tt.want, got))
			}
		})
	}
}

// TestIncomplete covers incomplete answers with any reason.
// covers: providers/206
func TestIncomplete(t *testing.T) {
	for details, want := range map[string]providers.StopReason{
		`null`: providers.StopLength, `{"reason":null}`: providers.StopLength, `{}`: providers.StopLength, `{"reason":"max_tokens"}`: providers.StopLength,
		`{"reason":"bored"}`: providers.StopLength, `7`: providers.StopLength, `{"reason":"content_filter"}`: providers.StopContentFilter,
	} {
		events, failure := read(t, textDelta(0, "a"), `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":`+details+`}}`)
		if failure != nil || events[len(events)-1].(providers.Done).StopReason != want {
			t.Errorf("%s: got %v, %v, want %s", details, events, failure, want)
		}
	}
}
