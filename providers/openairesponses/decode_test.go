package openairesponses_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
	"github.com/parleyrun/parley/providers/providertest"
)

const completed = `{"type":"response.completed","response":{"id":"r","status":"completed"}}`

func added(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s}`, index, item)
}

func done(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
}

func textDelta(index int, s string) string {
	return fmt.Sprintf(`{"type":"response.output_text.delta","output_index":%d,"content_index":0,"delta":%q}`, index, s)
}

func thoughtDelta(index, piece int, s string) string {
	return fmt.Sprintf(`{"type":"response.reasoning_summary_text.delta","output_index":%d,"summary_index":%d,"delta":%q}`, index, piece, s)
}

func argumentsDelta(index int, s string) string {
	return fmt.Sprintf(`{"type":"response.function_call_arguments.delta","output_index":%d,"delta":%q}`, index, s)
}

// recording contains every kind of output: reasoning with two pieces and without any, commentary, two
// calls with reasoning between them, an answer, and ignored events.
var recording = named(
	`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","model":"m-1","output":[]},"sequence_number":0}`,
	`{"type":"response.in_progress","response":{"id":"resp_1","status":"in_progress","model":"m-1","output":[]}}`,
	added(0, `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"short"}`),
	`{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}`,
	thoughtDelta(0, 0, "Hm, "), thoughtDelta(0, 0, "néw"),
	`{"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":0,"text":"Hm, néw"}`,
	thoughtDelta(0, 1, "<So>"),
	done(0, `{"id":"rs_9","type":"reasoning","summary":[{"type":"summary_text","text":"Hm, néw"},{"type":"summary_text","text":"<So>"}],"encrypted_content":"enc1"}`),
	added(1, `{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[],"phase":"commentary"}`),
	`{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
	`{"type":"response.output_text.delta","output_index":1,"item_id":"other","delta":"Ich schaue 😀","obfuscation":"xxxx"}`,
	done(1, `{"id":"msg_1","type":"message","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"Ich schaue 😀","annotations":[]}]}`),
	added(2, `{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_1","name":"add","arguments":""}`),
	argumentsDelta(2, `{"n":123456789`), argumentsDelta(2, `01234567890}`),
	`{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"n\":12345678901234567890}"}`,
	done(2, `{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"add","arguments":"{\"n\":12345678901234567890}"}`),
	added(3, `{"type":"reasoning","summary":[]}`),
	done(3, `{"type":"reasoning","summary":[],"encrypted_content":"enc2"}`),
	added(4, `{"type":"web_search_call","summary":7}`), done(4, `{"type":"web_search_call","summary":7}`),
	added(5, `{"type":"function_call","call_id":"call_2","name":"now","arguments":""}`),
	done(5, `{"type":"function_call","call_id":"call_2","name":"now","arguments":"{}"}`),
	`{"type":"response.completed","response":{"id":"resp_1","status":"completed","model":"m-1","service_tier":"priority","usage":{"input_tokens":20,`+
		`"input_tokens_details":{"cached_tokens":12,"cache_write_tokens":3},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":29}}}`,
)

// named frames payloads like the vendor.
func named(payloads ...string) string {
	var b strings.Builder
	for _, p := range payloads {
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(p), &e); err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Type, p)
	}
	return b.String()
}

// read decodes a stream of the given payloads through the complete protocol.
func read(t *testing.T, payloads ...string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return readBody(t, nil, providertest.Payloads(payloads...))
}

func readBody(t *testing.T, o *openairesponses.Options, body string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return providertest.Decode(t, openairesponses.NewCodec(o), body)
}

func TestDecodeRecording(t *testing.T) {
	providertest.Reads(t, openairesponses.NewCodec(nil), recording,
		providers.ReasoningDelta{Text: "Hm, "},
		providers.ReasoningDelta{Text: "néw"},
		providers.ReasoningDelta{Text: "\n\n<So>"},
		providers.ReasoningEnd{Signature: `{"encrypted_content":"enc1","summary":[8,4]}`},
		providers.TextDelta{Text: "Ich schaue 😀"},
		providers.TextEnd{Signature: `{"phase":"commentary"}`},
		providers.ToolCallStart{Index: 0, ID: "call_1", Name: "add"},
		providers.ToolCallDelta{Index: 0, Arguments: `{"n":123456789`},
		providers.ToolCallDelta{Index: 0, Arguments: `01234567890}`},
		providers.ToolCallEnd{Index: 0, ID: "call_1", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
		providers.ReasoningEnd{Signature: `{"encrypted_content":"enc2"}`},
		providers.ToolCallStart{Index: 1, ID: "call_2", Name: "now"},
		providers.ToolCallDelta{Index: 1, Arguments: `{}`},
		providers.ToolCallEnd{Index: 1, ID: "call_2", Name: "now", Arguments: json.RawMessage(`{}`)},
		providers.Done{
			StopReason: providers.StopToolUse, ResponseID: "resp_1", ResponseModel: "m-1", PriceFactor: 2,
			Usage: providers.Usage{Input: 5, Output: 9, CacheRead: 12, CacheWrite: 3, Reasoning: 4, Total: 29},
		},
	)
}

// TestRoundTrip sends decoded items back in their order, like the runtime.
// covers: providers/184
func TestRoundTrip(t *testing.T) {
	events, failure := readBody(t, nil, recording)
	if failure != nil {
		t.Fatal(failure)
	}
	var want []any
	for _, item := range output(t, []byte(recording)) {
		if item.(map[string]any)["type"] != "web_search_call" {
			want = append(want, item)
		}
	}
	if diff := cmp.Diff(want, replay(t, events)); diff != "" {
		t.Errorf("items (-vendor +parley):\n%s", diff)
	}
}

// saidShort returns a short form of a response.
func saidShort(t *testing.T, payloads ...string) string {
	t.Helper()
	events, failure := read(t, append(payloads, completed)...)
	if failure != nil {
		t.Fatal(failure)
	}
	var out []string
	for _, p := range providertest.MessageOf("p/m", events).Parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, "text "+p.Text+p.Signature)
		case providers.Reasoning:
			out = append(out, "reasoning "+p.Text+p.Signature)
		case providers.ToolCall:
			out = append(out, "call "+p.ID+string(p.Arguments))
		}
	}
	return strings.Join(out, "|")
}

func TestDecodeItems(t *testing.T) {
	message := func(s string) string {
		return fmt.Sprintf(`{"type":"message","content":[{"type":"output_text","text":%q}]}`, s)
	}
	call := func(arguments string) string {
		return fmt.Sprintf(`{"type":"function_call","call_id":"c","name":"f","arguments":%q}`, arguments)
	}
	for _, tt := range []struct {
		name     string
		payloads []string
		want     string
	}{
		{"no deltas", []string{added(0, message("")), done(0, message("a"))}, "text a"},
		{"done alone, without an index", []string{`{"type":"response.output_item.done","item":` + message("a") + `}`}, "text a"},
		{"deltas without an index", []string{added(0, message("")), `{"type":"response.output_text.delta","delta":"a"}`, done(0, message("a"))}, "text a"},
		{"refusal", []string{added(0, message("")), `{"type":"response.refusal.delta","output_index":0,"delta":"no"}`, done(0, `{"type":"message"}`)}, "text no"},
		{"refusal without deltas", []string{done(0, `{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`)}, "text no"},
		{"two messages", []string{done(0, message("a")), done(1, message("b")), done(2, message("c"))}, "text a{}|text b{}|text c"},
		{"arguments at the start", []string{added(0, call(`{"a":1}`)), done(0, call(`{"a":1}`))}, `call c{"a":1}`},
		{"arguments at the end", []string{added(0, call("")), argumentsDelta(0, `{"a"`), done(0, call(`{"a":1}`))}, `call c{"a":1}`},
		{"arguments by their own end", []string{
			added(0, call("")), `{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{}"}`, done(0, call("")),
		}, `call c{}`},
		{"late deltas", []string{done(0, call(`{}`)), argumentsDelta(0, `x`), done(0, call(`{"b":1}`))}, `call c{}`},
		{"shown as it is", []string{
			added(0, `{"type":"reasoning"}`), `{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"raw"}`,
			done(0, `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"raw"}],"encrypted_content":"e"}`), done(1, message("a")),
		}, `reasoning raw{"encrypted_content":"e","content":[3]}|text a`},
		{"reasoning without deltas", []string{done(0, `{"type":"reasoning","summary":[{"text":"a"},{"text":"b"}],"encrypted_content":"e"}`)},
			"reasoning a\n\nb" + `{"encrypted_content":"e","summary":[1,1]}`},
		{"not sealed", []string{done(0, `{"type":"reasoning","summary":[{"text":"a"}],"encrypted_content":null}`)}, "reasoning a"},
		{"done text differs from deltas", []string{
			added(0, `{"type":"reasoning"}`), thoughtDelta(0, 0, "a"), done(0, `{"type":"reasoning","summary":[{"text":"longer"}],"encrypted_content":"e"}`),
		}, "reasoning a"},
		{"a message within reasoning", []string{
			added(0, `{"type":"reasoning"}`), thoughtDelta(0, 0, "a"), added(1, message("")), textDelta(1, "b"), done(1, message("b")),
			done(0, `{"type":"reasoning","summary":[{"text":"a"}],"encrypted_content":"e"}`),
		}, "reasoning a|text b"},
		{"calls beside each other", []string{
			added(0, call("")), added(1, strings.Replace(call(""), `"c"`, `"d"`, 1)), argumentsDelta(1, `{"b":`), argumentsDelta(0, `{"a":1}`), argumentsDelta(1, `2}`),
			done(0, call(`{"a":1}`)), done(1, call(`{"b":2}`)),
		}, `call c{"a":1}|call d{"b":2}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, saidShort(t, tt.payloads...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeAllInTheEnd(t *testing.T) {
	events, failure := read(t, `{"type":"response.done","response":{"id":"r","status":"strange","output":[`+
		`{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]}}`)
	if failure != nil {
		t.Fatal(failure)
	}
	done := events[len(events)-1].(providers.Done)
	if len(providertest.MessageOf("p/m", events).Parts) != 2 || done.StopReason != providers.StopToolUse || done.ResponseID != "r" {
		t.Errorf("got %+v", events)
	}
}

// covers: providers/189
func TestDecodeEnds(t *testing.T) {
	end := func(kind, rest string) string {
		return fmt.Sprintf(`{"type":"response.%s","response":{"id":"r"%s}}`, kind, rest)
	}
	for payload, want := range map[string]providers.StopReason{
		end("completed", ""): providers.StopStop,
		end("incomplete", `,"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`): providers.StopLength,
		end("incomplete", `,"incomplete_details":{"reason":"content_filter"}`):                          providers.StopContentFilter,
		end("completed", `,"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`):  providers.StopLength,
	} {
		events, failure := read(t, added(0, `{"type":"message"}`), textDelta(0, "a"), payload, textDelta(0, "late"))
		if failure != nil || len(events) != 2 || events[1].(providers.Done).StopReason != want {
			t.Errorf("%s: got %v, %v", payload, events, failure)
		}
	}
}

// covers: providers/189 call_not_done, providers/189 no_end
func TestDecodeErrors(t *testing.T) {
	failed := func(rest string) string {
		return `{"type":"response.failed","response":{"status":"failed"` + rest + `}}`
	}
	call := added(1, `{"type":"function_call","call_id":"c","name":"f","arguments":""}`)
	for _, tt := range []struct {
		name     string
		payloads []string
		kind     providers.ErrorKind
		status   int
	}{
		{"no end", nil, providers.KindTruncated, 200},
		{"marker of another format", []string{"[DONE]"}, providers.KindTruncated, 200},
		{"nested", []string{`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"m"}}`, failed("")}, providers.KindContextOverflow, 200},
		{"flat", []string{`{"type":"error","code":"server_error","message":"m","param":null}`}, providers.KindOverloaded, 500},
		{"status as a text", []string{`{"type":"error","code":"502","message":"m"}`}, providers.KindOverloaded, 502},
		{"without a type", []string{`{"error":{"message":"upstream","code":502}}`}, providers.KindOverloaded, 502},
		{"quota", []string{`{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"m"}}`}, providers.KindQuota, 200},
		{"failed", []string{failed(`,"error":{"code":"rate_limit_exceeded","message":"try again in 2s"}`)}, providers.KindRateLimit, 429},
		{"slow down", []string{failed(`,"error":{"code":"slow_down","message":"m"}`)}, providers.KindOverloaded, 503},
		{"an image", []string{failed(`,"error":{"code":"invalid_image_url","message":"m"}`)}, providers.KindInvalidRequest, 400},
		{"a policy", []string{failed(`,"error":{"code":"bio_policy","message":"m"}`)}, providers.KindInvalidRequest, 400},
		{"failed for nothing", []string{failed("")}, providers.KindProtocol, 200},
		{"cancelled", []string{`{"type":"response.completed","response":{"status":"cancelled"}}`}, providers.KindProtocol, 200},
		{"queued", []string{`{"type":"response.completed","response":{"status":"queued"}}`}, providers.KindProtocol, 200},
		{"call not done", []string{call, completed}, providers.KindProtocol, 200},
		{"not JSON", []string{`{"type":`}, providers.KindProtocol, 200},
		{"wrong delta", []string{`{"type":"response.output_text.delta","output_index":0,"delta":7}`}, providers.KindProtocol, 200},
		{"wrong item", []string{added(1, `7`)}, providers.KindProtocol, 200},
		{"wrong call", []string{added(1, `{"type":"function_call","name":7}`)}, providers.KindProtocol, 200},
		{"wrong response", []string{`{"type":"response.completed","response":7}`}, providers.KindProtocol, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, e := read(t, append([]string{added(0, `{"type":"message"}`), textDelta(0, "a")}, tt.payloads...)...)
			if e == nil || e.Kind != tt.kind || e.Status != tt.status {
				t.Fatalf("got %+v, want kind %s, status %d", e, tt.kind, tt.status)
			}
			if len(events) == 0 {
				t.Error("got no text before the error")
			}
		})
	}
}

func TestDecodeEventLimit(t *testing.T) {
	body := "data: " + added(0, `{"type":"message"}`) + "\n\ndata: " + textDelta(0, strings.Repeat("a", 2<<20)) + "\n\ndata: " + completed + "\n\n"
	if _, failure := readBody(t, nil, body); failure != nil {
		t.Errorf("event of 2 MiB: got %v", failure)
	}
	_, failure := readBody(t, &openairesponses.Options{MaxEventBytes: 1 << 20}, body)
	if failure == nil || failure.Kind != providers.KindProtocol {
		t.Errorf("got %v, want kind %s", failure, providers.KindProtocol)
	}
}

// TestEndless checks the reply limits for every kind of endless output.
func TestEndless(t *testing.T) {
	x := strings.Repeat("x", 1000)
	after := func(first string, next func(int) string) func(int) string {
		return func(i int) string {
			if i == 0 {
				return first
			}
			return next(i)
		}
	}
	call := `{"type":"function_call","call_id":"c","name":"f","arguments":""}`
	providertest.RunEndless(t, openairesponses.NewCodec(nil), nil, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {
			"text":      after(added(0, `{"type":"message"}`), func(int) string { return textDelta(0, x) }),
			"reasoning": after(added(0, `{"type":"reasoning"}`), func(i int) string { return thoughtDelta(0, i, x) }),
			"items":     func(i int) string { return added(i, `{"type":"odd"}`) },
			"messages":  func(i int) string { return done(i, `{"type":"message","phase":"p"}`) },
			"seals":     func(i int) string { return done(i, `{"type":"reasoning","encrypted_content":"e"}`) },
		},
		providers.LimitedArguments: {
			"arguments": after(added(0, call), func(int) string { return argumentsDelta(0, x) }),
		},
		providers.LimitedCalls: {
			"calls": func(i int) string { return added(i, call) },
		},
	})
}

// FuzzDecode checks that no input breaks the order of events.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(recording))
	f.Add([]byte("data: " + added(0, `{"type":"function_call","arguments":"{"}`) + "\n\ndata: " + completed + "\n\n"))
	f.Add([]byte("event: error\r\ndata: {\"message\":1}\r\n\r\n"))
	f.Add([]byte("data: {\"type\":\"response.done\",\"response\":{\"output\":[{\"type\":\"reasoning\",\"summary\":[{\"text\":\"\"}],\"encrypted_content\":\"e\"}]}}"))
	codec := openairesponses.NewCodec(&openairesponses.Options{MaxEventBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, broken := providertest.Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"},
			func(a *providers.Assembler) error { return codec.Decode(strings.NewReader(string(body)), a) }))
		if broken != nil {
			t.Fatal(broken)
		}
	})
}

// BenchmarkEncode encodes the next call of a conversation.
func BenchmarkEncode(b *testing.B) { providertest.BenchmarkEncode(b, openairesponses.NewCodec(nil)) }

// BenchmarkDecode decodes a reply that is available at once.
func BenchmarkDecode(b *testing.B) {
	providertest.BenchmarkDecode(b, openairesponses.NewCodec(nil), []byte(recording))
}
