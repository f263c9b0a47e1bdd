package openaicompletions_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openaicompletions"
	"github.com/parleyrun/parley/providers/providertest"
)

// read decodes a stream of the given payloads through the complete protocol.
func read(t *testing.T, o *openaicompletions.Options, payloads ...string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return readBody(t, o, providertest.Payloads(payloads...))
}

func readBody(t *testing.T, o *openaicompletions.Options, body string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return providertest.Decode(t, openaicompletions.NewCodec(o), body)
}

func TestDecodeRecording(t *testing.T) {
	providertest.Reads(t, openaicompletions.NewCodec(nil), recording,
		providers.ReasoningDelta{Text: "Hm, "},
		providers.ReasoningDelta{Text: "néw"},
		providers.ReasoningEnd{Signature: "reasoning_content"},
		providers.TextDelta{Text: "Grüße 😀"},
		providers.ToolCallStart{Index: 0, ID: "c0", Name: "add"},
		providers.ToolCallDelta{Index: 0, Arguments: `{"n":123456789`},
		providers.ToolCallStart{Index: 1, ID: "c1", Name: "now"},
		providers.ToolCallDelta{Index: 0, Arguments: `01234567890}`},
		providers.ToolCallEnd{Index: 0, ID: "c0", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
		providers.ToolCallDelta{Index: 1, Arguments: `{}`},
		providers.ToolCallEnd{Index: 1, ID: "c1", Name: "now", Arguments: json.RawMessage(`{}`)},
		providers.Done{
			StopReason: providers.StopToolUse, ResponseID: "r1", ResponseModel: "m-1",
			Usage: providers.Usage{Input: 5, Output: 9, CacheRead: 15, Reasoning: 4, Total: 29},
		},
	)
}

func TestDecodeCalls(t *testing.T) {
	const stop = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
	calls := func(s string) string { return `{"choices":[{"delta":{"tool_calls":[` + s + `]}}]}` }
	end := func(i int, id, name, arguments string) providers.ToolCallEnd {
		return providers.ToolCallEnd{Index: i, ID: id, Name: name, Arguments: json.RawMessage(arguments)}
	}
	malformed := end(0, "a", "f", `"{\"x\": oops"`)
	malformed.Malformed = true
	tests := []struct {
		name     string
		payloads []string
		want     []providers.ToolCallEnd
	}{
		{"all under index 0", []string{
			calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`),
			calls(`{"index":0,"id":"b","function":{"name":"g","arguments":"{\"x\":1}"}}`),
		}, []providers.ToolCallEnd{end(0, "a", "f", `{}`), end(1, "b", "g", `{"x":1}`)}},
		{"no index", []string{
			calls(`{"id":"a","function":{"name":"f","arguments":"{\"x\""}}`),
			calls(`{"function":{"arguments":":1}"}}`),
			calls(`{"id":"b","function":{"name":"g","arguments":"{}"}}`),
		}, []providers.ToolCallEnd{end(0, "a", "f", `{"x":1}`), end(1, "b", "g", `{}`)}},
		{"no id", []string{
			calls(`{"index":0,"function":{"name":"f","arguments":"{}"}},{"index":1,"function":{"name":"f","arguments":"{}"}}`),
		}, []providers.ToolCallEnd{end(0, "", "f", `{}`), end(1, "", "f", `{}`)}},
		{"id and name repeated", []string{
			calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}`),
			calls(`{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}`),
		}, []providers.ToolCallEnd{end(0, "a", "f", `{"x":1}`)}},
		{"name after arguments", []string{
			calls(`{"index":0,"id":"a","function":{"arguments":"{\"x\""}}`),
			calls(`{"index":0,"function":{"name":"f","arguments":":1}"}}`),
		}, []providers.ToolCallEnd{end(0, "a", "f", `{"x":1}`)}},
		{"name never", []string{
			calls(`{"index":0,"id":"a","function":{"arguments":"{}"}}`),
		}, []providers.ToolCallEnd{end(0, "a", "", `{}`)}},
		{"arguments as object", []string{
			calls(`{"index":0,"id":"a","function":{"name":"f","arguments":{"n":12345678901234567890}}}`),
		}, []providers.ToolCallEnd{end(0, "a", "f", `{"n":12345678901234567890}`)}},
		{"no arguments", []string{
			calls(`{"index":0,"id":"a","function":{"name":"f","arguments":null}}`),
		}, []providers.ToolCallEnd{end(0, "a", "f", `{}`)}},
		{"not JSON", []string{
			calls(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\": oops"}}`),
		}, []providers.ToolCallEnd{malformed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			providertest.ReadsCalls(t, openaicompletions.NewCodec(nil), providertest.Payloads(append(tt.payloads, stop)...), tt.want...)
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	const text = `{"choices":[{"delta":{"content":"a"}}]}`
	tests := []struct {
		name, last string
		kind       providers.ErrorKind
	}{
		{"no finish", text, providers.KindTruncated},
		{"marker without finish", `[DONE]`, providers.KindTruncated},
		{"overloaded", `{"error":{"message":"try later","type":"server_error"}}`, providers.KindOverloaded},
		{"status as code", `{"error":{"message":"upstream","code":502}}`, providers.KindOverloaded},
		{"status as a text", `{"error":{"message":"upstream","code":"502"}}`, providers.KindOverloaded},
		{"list of errors", `{"success":false,"errors":[{"code":3040,"message":"m"}]}`, providers.KindProtocol},
		{"list of errors, with a status", `{"errors":[{"status":"503","message":"m"}]}`, providers.KindOverloaded},
		{"no shift", `{"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}`, providers.KindContextOverflow},
		{"rate limit", `{"error":{"message":"Rate limit reached","code":null}}`, providers.KindRateLimit},
		{"tool named as a limit", `{"error":{"message":"Invalid schema for function 'get_rate_limit'","code":null}}`, providers.KindInvalidRequest},
		{"overflow", `{"error":"prompt is too long: 300000 tokens"}`, providers.KindContextOverflow},
		{"in the choice", `{"choices":[{"error":{"message":"no","code":401}}]}`, providers.KindAuth},
		{"at the top", `{"object":"error","message":"bad","code":400}`, providers.KindInvalidRequest},
		{"the vendor's connection broke", `{"choices":[{"delta":{},"finish_reason":"network_error"}]}`, providers.KindOverloaded},
		{"the vendor's vendor failed", `{"choices":[{"delta":{},"finish_reason":"error"}]}`, providers.KindOverloaded},
		{"not JSON", `{"choices":`, providers.KindProtocol},
		{"wrong type", `{"choices":[{"delta":{"content":7}}]}`, providers.KindProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, e := read(t, nil, text, tt.last)
			if e == nil || e.Kind != tt.kind || e.Provider != "p" || e.Status < 200 {
				t.Fatalf("got %+v, want kind %s", e, tt.kind)
			}
			if e.Kind != providers.KindTruncated && string(e.Body) != tt.last {
				t.Errorf("got body %q, want the event", e.Body)
			}
			if len(events) == 0 {
				t.Error("got no text before the error")
			}
		})
	}
}

func TestDecodeNamedErrorEvent(t *testing.T) {
	_, e := readBody(t, nil, "event: error\ndata: {\"message\":\"Overloaded\"}\n\n")
	var vendor *providers.VendorError
	if e == nil || e.Kind != providers.KindOverloaded || !errors.As(e, &vendor) || vendor.Message != "Overloaded" {
		t.Errorf("got %v", e)
	}
}

// covers: providers/124
func TestDecodeUsage(t *testing.T) {
	const stop = `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"%s}]%s}`
	tests := []struct {
		name, choice, top string
		want              providers.Usage
	}{
		{"none", "", "", providers.Usage{}},
		{"null", "", `,"usage":null`, providers.Usage{}},
		{"plain", "", `,"usage":{"prompt_tokens":3,"completion_tokens":4}`, providers.Usage{Input: 3, Output: 4, Total: 7}},
		{"in the choice", `,"usage":{"prompt_tokens":3,"completion_tokens":4}`, "", providers.Usage{Input: 3, Output: 4, Total: 7}},
		{"cached, top", "", `,"usage":{"prompt_tokens":9,"cached_tokens":5}`, providers.Usage{Input: 4, CacheRead: 5, Total: 9}},
		{"cache hits", "", `,"usage":{"prompt_tokens":9,"prompt_cache_hit_tokens":5}`, providers.Usage{Input: 4, CacheRead: 5, Total: 9}},
		{"cache written", "", `,"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":3}}`, providers.Usage{Input: 4, CacheRead: 2, CacheWrite: 3, Total: 9}},
		{"thinking beside the output", "", `,"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}`, providers.Usage{Input: 10, Output: 12, Reasoning: 7, Total: 22}},
		{"thinking within the output", "", `,"usage":{"prompt_tokens":10,"completion_tokens":12,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}`, providers.Usage{Input: 10, Output: 12, Reasoning: 7, Total: 22}},
		{"more cached than sent", "", `,"usage":{"prompt_tokens":1,"cached_tokens":5}`, providers.Usage{CacheRead: 5, Total: 5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, failure := read(t, nil, strings.Replace(strings.Replace(stop, "%s", tt.choice, 1), "%s", tt.top, 1))
			if failure != nil {
				t.Fatal(failure)
			}
			if diff := cmp.Diff(tt.want, events[len(events)-1].(providers.Done).Usage); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodePrices(t *testing.T) {
	events, failure := read(t, nil, `{"service_tier":"flex","choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"cost":0.25}}`)
	if failure != nil {
		t.Fatal(failure)
	}
	if done := events[len(events)-1].(providers.Done); done.PriceFactor != 0.5 || done.Billed == nil || *done.Billed != 0.25 {
		t.Errorf("got %+v", done)
	}
}

func TestDecodeEventLimit(t *testing.T) {
	big := `{"choices":[{"delta":{"content":"` + strings.Repeat("a", 2<<20) + `"},"finish_reason":"stop"}]}`
	if _, failure := read(t, nil, big); failure != nil {
		t.Errorf("event of 2 MiB: got %v", failure)
	}
	_, failure := read(t, &openaicompletions.Options{MaxEventBytes: 1 << 20}, big)
	if failure == nil || failure.Kind != providers.KindProtocol {
		t.Errorf("got %v, want kind %s", failure, providers.KindProtocol)
	}
}

// TestServersWithoutFinishReason: Compat must declare servers that end with the marker only.
func TestServersWithoutFinishReason(t *testing.T) {
	body := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for _, tt := range []struct {
		compat providers.Compat
		body   string
		ends   bool
	}{
		{providers.Compat{}, body + "data: [DONE]\n\n", false},
		{providers.Compat{SupportsFinishReason: providers.FlagOff}, body + "data: [DONE]\n\n", true},
		{providers.Compat{SupportsFinishReason: providers.FlagOff}, body, false},
	} {
		m := providers.Model{Provider: "p", Compat: tt.compat}
		events, failure, broken := providertest.Collect(providers.NewStream(t.Context(), m, func(a *providers.Assembler) error {
			return openaicompletions.NewCodec(nil).Decode(strings.NewReader(tt.body), a)
		}))
		if broken != nil || (failure == nil) != tt.ends || !tt.ends && failure.Kind != providers.KindTruncated {
			t.Errorf("%+v: got %d events, %v, %v", tt, len(events), failure, broken)
		}
	}
}

// FuzzDecode checks that no input breaks the order of events.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(recording))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":{\"a\":1}}}]},\"finish_reason\":\"stop\"}]}\n\n"))
	f.Add([]byte("event: error\r\ndata: {\"message\":1}\r\n\r\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"refusal\":\"no\"},\"finish_reason\":\"content_filter\"}]}"))
	codec := openaicompletions.NewCodec(&openaicompletions.Options{MaxEventBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, broken := providertest.Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"},
			func(a *providers.Assembler) error { return codec.Decode(strings.NewReader(string(body)), a) }))
		if broken != nil {
			t.Fatal(broken)
		}
	})
}

// TestStreamErrorStatus: an error inside a stream has the status of its code, if
// known.
func TestStreamErrorStatus(t *testing.T) {
	for event, want := range map[string]int{
		`{"error":{"message":"m","type":"server_error"}}`: 500, `{"choices":[{"error":{"message":"no","code":401}}]}`: 401,
		`{"error":{"message":"m","code":"slow_down"}}`: 503, `{"error":"odd"}`: 200,
	} {
		if _, e := read(t, nil, event); e == nil || e.Status != want {
			t.Errorf("%s: got %+v, want status %d", event, e, want)
		}
	}
}
