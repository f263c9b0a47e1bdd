package anthropicmessages_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/anthropicmessages"
	"github.com/parleyrun/parley/providers/providertest"
)

// Payloads of a response with one text block, index 0.
const (
	textStart   = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	messageStop = `{"type":"message_stop"}`
)

func textDelta(s string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, s)
}

func messageEnd(reason string) string {
	return fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q}}`, reason)
}

func vendorError(kind, message string) string {
	return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
}

func start(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}

func delta(index int, kind, field, value string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%q}}`, index, kind, field, value)
}

// read decodes a stream of the given payloads through the complete protocol.
func read(t *testing.T, o *anthropicmessages.Options, payloads ...string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return readBody(t, o, providertest.Payloads(payloads...))
}

func readBody(t *testing.T, o *anthropicmessages.Options, body string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return providertest.Decode(t, anthropicmessages.NewCodec(o), body)
}

func TestDecodeRecording(t *testing.T) {
	providertest.Reads(t, anthropicmessages.NewCodec(nil), recording,
		providers.ReasoningDelta{Text: "Hm, "},
		providers.ReasoningDelta{Text: "néw"},
		providers.ReasoningEnd{Signature: "c2ln"},
		providers.TextDelta{Text: "Grüße 😀"},
		providers.ReasoningEnd{Signature: `[{"type":"redacted_thinking","data":"cmVk"}]`},
		providers.ReasoningDelta{Text: "so"},
		providers.ReasoningEnd{Signature: "c28="},
		providers.ToolCallStart{Index: 0, ID: "toolu_0", Name: "add"},
		providers.ToolCallDelta{Index: 0, Arguments: `{"n":123456789`},
		providers.ToolCallDelta{Index: 0, Arguments: `01234567890}`},
		providers.ToolCallEnd{Index: 0, ID: "toolu_0", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
		providers.ToolCallStart{Index: 1, ID: "toolu_1", Name: "now"},
		providers.ToolCallEnd{Index: 1, ID: "toolu_1", Name: "now", Arguments: json.RawMessage(`{}`)},
		providers.Done{
			StopReason: providers.StopToolUse, ResponseID: "msg_1", ResponseModel: "m-1",
			Usage: providers.Usage{Input: 5, Output: 9, CacheRead: 15, CacheWrite: 3, Total: 32},
		},
	)
}

func TestDecodeCalls(t *testing.T) {
	use := func(index int, input string) string {
		return start(index, fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":"f"%s}`, index, input))
	}
	input := func(index int, s string) string { return delta(index, "input_json_delta", "partial_json", s) }
	end := func(i int, arguments string) providers.ToolCallEnd {
		return providers.ToolCallEnd{Index: i, ID: fmt.Sprintf("t%d", i), Name: "f", Arguments: json.RawMessage(arguments)}
	}
	malformed := end(0, `"{\"x\": oops"`)
	malformed.Malformed = true
	tests := []struct {
		name     string
		payloads []string
		want     []providers.ToolCallEnd
	}{
		{"no input", []string{use(0, "")}, []providers.ToolCallEnd{end(0, `{}`)}},
		{"null input", []string{use(0, `,"input":null`)}, []providers.ToolCallEnd{end(0, `{}`)}},
		{"whole input at the start", []string{use(0, `,"input":{"n":12345678901234567890}`)}, []providers.ToolCallEnd{end(0, `{"n":12345678901234567890}`)}},
		{"index used again without a stop", []string{use(0, `,"input":{"x":1}`), start(0, `{"type":"tool_use","id":"t1","name":"f"}`)}, []providers.ToolCallEnd{end(0, `{"x":1}`), end(1, `{}`)}},
		{"fragments supersede it", []string{use(0, `,"input":{"x":1}`), input(0, `{"x"`), input(0, `:2}`)}, []providers.ToolCallEnd{end(0, `{"x":2}`)}},
		{"alternating", []string{use(0, ""), use(1, ""), input(0, `{"x"`), input(1, `{"y":1}`), input(0, `:2}`)}, []providers.ToolCallEnd{end(0, `{"x":2}`), end(1, `{"y":1}`)}},
		{"digits kept", []string{use(0, ""), input(0, `{"n":1.00}`)}, []providers.ToolCallEnd{end(0, `{"n":1.00}`)}},
		{"not JSON", []string{use(0, ""), input(0, `{"x": oops`)}, []providers.ToolCallEnd{malformed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			providertest.ReadsCalls(t, anthropicmessages.NewCodec(nil), providertest.Payloads(append(tt.payloads, messageEnd("end_turn"), messageStop)...), tt.want...)
		})
	}
}

// TestReasoningRoundTrip sends decoded reasoning back, like the runtime.
// covers: providers/195
func TestReasoningRoundTrip(t *testing.T) {
	think := func(i int) string { return start(i, `{"type":"thinking","thinking":""}`) }
	text := func(i int, s string) string { return delta(i, "thinking_delta", "thinking", s) }
	sign := func(i int, s string) string { return delta(i, "signature_delta", "signature", s) }
	redacted := func(i int, s string) string {
		return start(i, fmt.Sprintf(`{"type":"redacted_thinking","data":%q}`, s))
	}
	tests := []struct {
		name     string
		payloads []string
		want     string
	}{
		{"signed", []string{think(1), text(1, "a"), text(1, "<b>"), sign(1, "s")}, `[{"type":"thinking","thinking":"a<b>","signature":"s"}]`},
		{"nothing shown", []string{think(1), sign(1, "s")}, `[{"type":"thinking","thinking":"","signature":"s"}]`},
		{"never signed", []string{think(1), text(1, "a")}, `[]`},
		{"redacted", []string{redacted(1, "r")}, `[{"type":"redacted_thinking","data":"r"}]`},
		{"several", []string{think(1), text(1, "a"), sign(1, "s"), redacted(2, "r"), think(3), text(3, "<b>"), sign(3, "t")},
			`[{"type":"thinking","thinking":"a","signature":"s"},{"type":"redacted_thinking","data":"r"},{"type":"thinking","thinking":"<b>","signature":"t"}]`},
		{"one of several signed", []string{think(1), text(1, "a"), think(2), text(2, "b"), sign(2, "t")}, `[{"type":"thinking","thinking":"b","signature":"t"}]`},
		{"none of several signed", []string{think(1), text(1, "a"), think(2), text(2, "b")}, `[]`},
	}
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, failure := read(t, nil, append(tt.payloads, textStart, textDelta("answer"), messageEnd("end_turn"), messageStop)...)
			if failure != nil {
				t.Fatal(failure)
			}
			var body struct {
				Messages []struct{ Content []json.RawMessage }
			}
			sent := encode(t, m, providers.Request{Messages: []providers.Message{providertest.MessageOf("p/m", events)}}, providers.Options{})
			if err := json.Unmarshal([]byte(sent), &body); err != nil {
				t.Fatal(err)
			}
			content := body.Messages[0].Content
			got, err := json.Marshal(content[:len(content)-1])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(providertest.Canonical(t, tt.want), providertest.Canonical(t, string(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRoundTripOrder sends a response back block by block.
// covers: providers/195
func TestRoundTripOrder(t *testing.T) {
	stop := func(i int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i) }
	events, failure := read(t, nil,
		start(0, `{"type":"thinking","thinking":""}`), delta(0, "thinking_delta", "thinking", "one"), delta(0, "signature_delta", "signature", "a"), stop(0),
		start(1, `{"type":"thinking","thinking":""}`), delta(1, "signature_delta", "signature", "b"), stop(1),
		start(2, `{"type":"tool_use","id":"t1","name":"f","input":{}}`), stop(2),
		start(3, `{"type":"redacted_thinking","data":"cg=="}`), stop(3),
		start(4, `{"type":"text","text":""}`), delta(4, "text_delta", "text", "so"), stop(4),
		start(5, `{"type":"thinking","thinking":""}`), delta(5, "thinking_delta", "thinking", "two"), delta(5, "signature_delta", "signature", "d"), stop(5),
		start(6, `{"type":"tool_use","id":"t2","name":"g","input":{}}`), delta(6, "input_json_delta", "partial_json", `{"x":1}`), stop(6),
		messageEnd("tool_use"), messageStop)
	if failure != nil {
		t.Fatal(failure)
	}
	m := providers.Model{Provider: "p", ID: "m", Reasoning: true}
	sent := encode(t, m, providers.Request{Messages: []providers.Message{providertest.MessageOf("p/m", events)}}, providers.Options{})
	var body struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatal(err)
	}
	want := `[
		{"type":"thinking","thinking":"one","signature":"a"},
		{"type":"thinking","thinking":"","signature":"b"},
		{"type":"tool_use","id":"t1","name":"f","input":{}},
		{"type":"redacted_thinking","data":"cg=="},
		{"type":"text","text":"so"},
		{"type":"thinking","thinking":"two","signature":"d"},
		{"type":"tool_use","id":"t2","name":"g","input":{"x":1}}
	]`
	if diff := cmp.Diff(providertest.Canonical(t, want), providertest.Canonical(t, string(body.Messages[0].Content))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeStopReasons(t *testing.T) {
	for reason, want := range map[string]providers.StopReason{
		"end_turn": providers.StopStop, "stop_sequence": providers.StopStop, "pause_turn": providers.StopStop,
		"tool_use":   providers.StopStop, // without a call
		"max_tokens": providers.StopLength, "model_context_window_exceeded": providers.StopLength,
		"refusal": providers.StopContentFilter, "sensitive": providers.StopContentFilter,
	} {
		events, failure := read(t, nil, textStart, textDelta("a"), messageEnd(reason), messageStop)
		if failure != nil {
			t.Errorf("%s: got %v", reason, failure)
			continue
		}
		if done := events[len(events)-1].(providers.Done); done.StopReason != want {
			t.Errorf("%s: got %q, want %q", reason, done.StopReason, want)
		}
	}
}

func TestDecodeUsageDetails(t *testing.T) {
	events, failure := read(t, nil, `{"type":"message_start","message":{"usage":{"input_tokens":1,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_1h_input_tokens":4}}}}`,
		textStart, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":8,"output_tokens_details":{"thinking_tokens":5}}}`, messageStop)
	if failure != nil {
		t.Fatal(failure)
	}
	done := events[len(events)-1].(providers.Done)
	if want := (providers.Usage{Input: 1, Output: 8, CacheWrite: 9, Reasoning: 5, Total: 18}); done.Usage != want || done.CacheWriteHour != 4 {
		t.Errorf("got %+v", done)
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name, last string
		kind       providers.ErrorKind
	}{
		{"no end", `{"type":"ping"}`, providers.KindTruncated},
		{"message_stop without stop_reason", messageStop, providers.KindTruncated},
		{"overloaded", vendorError("overloaded_error", "m"), providers.KindOverloaded},
		{"internal", vendorError("api_error", "m"), providers.KindOverloaded},
		{"timeout", vendorError("timeout_error", "m"), providers.KindOverloaded},
		{"rate limit", vendorError("rate_limit_error", "m"), providers.KindRateLimit},
		{"authentication", vendorError("authentication_error", "m"), providers.KindAuth},
		{"permission", vendorError("permission_error", "m"), providers.KindAuth},
		{"billing", vendorError("billing_error", "m"), providers.KindQuota},
		{"invalid request", vendorError("invalid_request_error", "m"), providers.KindInvalidRequest},
		{"not found", vendorError("not_found_error", "m"), providers.KindInvalidRequest},
		{"too large", vendorError("request_too_large", "m"), providers.KindContextOverflow},
		{"overflow", vendorError("invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"), providers.KindContextOverflow},
		{"unknown error", vendorError("odd_error", "m"), providers.KindProtocol},
		{"at the top", `{"type":"error","message":"Overloaded"}`, providers.KindOverloaded},
		{"without a type", `{"error":{"message":"upstream","code":502}}`, providers.KindOverloaded},
		{"status as a text", `{"error":{"message":"upstream","code":"502"}}`, providers.KindOverloaded},
		{"tool named as a limit", vendorError("invalid_request_error", "tools.0.custom.input_schema: get_rate_limit lacks a type"), providers.KindInvalidRequest},
		{"not JSON", `{"type":`, providers.KindProtocol},
		{"wrong type", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}`, providers.KindProtocol},
		{"wrong message", `{"type":"message_start","message":7}`, providers.KindTruncated},
		{"wrong block", start(1, `7`), providers.KindProtocol},
		{"wrong field of a block", start(1, `{"type":"text","text":7}`), providers.KindProtocol},
		{"wrong usage", `{"type":"message_delta","usage":7}`, providers.KindTruncated},
		{"wrong stop_reason", `{"type":"message_delta","delta":{"stop_reason":7}}`, providers.KindTruncated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, e := read(t, nil, textStart, textDelta("a"), tt.last)
			if e == nil || e.Kind != tt.kind || e.Provider != "p" || e.Status < 200 {
				t.Fatalf("got %+v, want kind %s", e, tt.kind)
			}
			if e.Kind != providers.KindTruncated && string(e.Body) != tt.last {
				t.Errorf("got body %q, want the event", e.Body)
			}
			if len(events) != 1 {
				t.Errorf("got %d events, want the text before the error", len(events))
			}
		})
	}
}

func TestDecodeNamedErrorEvent(t *testing.T) {
	_, e := readBody(t, nil, "event: error\ndata: {\"type\":\"overloaded_error\",\"message\":\"Later\"}\n\n")
	var vendor *providers.VendorError
	if e == nil || e.Kind != providers.KindOverloaded || !errors.As(e, &vendor) || vendor.Message != "Later" {
		t.Errorf("got %v", e)
	}
}

// TestDecodeTypeFromName reads data without a type and ignores "error": null.
func TestDecodeTypeFromName(t *testing.T) {
	body := strings.Join([]string{
		named("content_block_start", `{"index":0,"error":null,"content_block":{"type":"text","text":"a"}}`),
		named("message_delta", `{"delta":{"stop_reason":"end_turn"}}`),
		named("message_stop", `{}`),
	}, "\n\n") + "\n\n"
	events, failure := readBody(t, nil, body)
	want := []providers.Event{providers.TextDelta{Text: "a"}, providers.Done{StopReason: providers.StopStop}}
	if diff := cmp.Diff(want, events); failure != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", failure, diff)
	}
}

// covers: providers/124
func TestDecodeUsage(t *testing.T) {
	tests := []struct {
		name, first, last string
		want              providers.Usage
	}{
		{"none", `null`, `null`, providers.Usage{}},
		{"at the start only", `{"input_tokens":3,"output_tokens":1}`, `null`, providers.Usage{Input: 3, Output: 1, Total: 4}},
		{"at the end only", `{"input_tokens":0}`, `{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":5}`, providers.Usage{Input: 3, Output: 4, CacheRead: 5, Total: 12}},
		{"cumulative", `{"input_tokens":3,"output_tokens":1}`, `{"output_tokens":4}`, providers.Usage{Input: 3, Output: 4, Total: 7}},
		{"nulls", `{"input_tokens":3,"cache_creation_input_tokens":null}`, `{"input_tokens":null,"output_tokens":4}`, providers.Usage{Input: 3, Output: 4, Total: 7}},
		{"negative", `{"input_tokens":-3}`, `{"output_tokens":-4}`, providers.Usage{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, failure := read(t, nil, `{"type":"message_start","message":{"usage":`+tt.first+`}}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":`+tt.last+`}`, messageStop)
			if failure != nil {
				t.Fatal(failure)
			}
			if diff := cmp.Diff(tt.want, events[len(events)-1].(providers.Done).Usage); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeEventLimit(t *testing.T) {
	payloads := []string{textStart, textDelta(strings.Repeat("a", 2<<20)), messageEnd("end_turn"), messageStop}
	if _, failure := read(t, nil, payloads...); failure != nil {
		t.Errorf("event of 2 MiB: got %v", failure)
	}
	_, failure := read(t, &anthropicmessages.Options{MaxEventBytes: 1 << 20}, payloads...)
	if failure == nil || failure.Kind != providers.KindProtocol {
		t.Errorf("got %v, want kind %s", failure, providers.KindProtocol)
	}
}

// FuzzDecode checks that no input breaks the order of events.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(recording))
	f.Add([]byte("event: error\r\ndata: {\"message\":1}\r\n\r\n"))
	f.Add([]byte("data: " + start(0, `{"type":"tool_use","input":[1]}`) + "\n\ndata: " + messageEnd("refusal") + "\n\ndata: " + messageStop))
	f.Add([]byte("data: " + start(0, `{"type":"redacted_thinking","data":"x"}`) + "\n\ndata: " + messageEnd("max_tokens") + "\n\ndata: " + messageStop))
	codec := anthropicmessages.NewCodec(&anthropicmessages.Options{MaxEventBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, broken := providertest.Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"},
			func(a *providers.Assembler) error { return codec.Decode(strings.NewReader(string(body)), a) }))
		if broken != nil {
			t.Fatal(broken)
		}
	})
}

// TestStreamErrorStatus: an error inside a stream has the status of its type, if
// known.
func TestStreamErrorStatus(t *testing.T) {
	for event, want := range map[string]int{
		vendorError("overloaded_error", "m"): 503, vendorError("invalid_request_error", "m"): 400,
		`{"error":{"message":"upstream","code":502}}`: 502, vendorError("odd_error", "m"): 200,
	} {
		if _, e := read(t, nil, event); e == nil || e.Status != want {
			t.Errorf("%s: got %+v, want status %d", event, e, want)
		}
	}
}
