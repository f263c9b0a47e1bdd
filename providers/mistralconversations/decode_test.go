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

func read(t *testing.T, payloads ...string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return providertest.Decode(t, mistralconversations.NewCodec(nil), providertest.Payloads(payloads...))
}

func TestDecodeRecording(t *testing.T) {
	providertest.Reads(t, mistralconversations.NewCodec(nil), recording,
		providers.ReasoningDelta{Text: "Hm, "},
		providers.ReasoningDelta{Text: "néw"},
		providers.ReasoningEnd{},
		providers.TextDelta{Text: "Grüße "},
		providers.TextDelta{Text: "😀"},
		providers.ToolCallStart{Index: 0, ID: "gSIMJiOkT", Name: "now"},
		providers.ToolCallStart{Index: 1, ID: "5K7IOShCC", Name: "add"},
		providers.ToolCallDelta{Index: 1, Arguments: `{"n":123456789`},
		providers.ToolCallDelta{Index: 1, Arguments: `01234567890}`},
		providers.ToolCallDelta{Index: 0, Arguments: `{}`},
		providers.ToolCallEnd{Index: 0, ID: "gSIMJiOkT", Name: "now", Arguments: json.RawMessage(`{}`)},
		providers.ToolCallEnd{Index: 1, ID: "5K7IOShCC", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
		providers.Done{
			StopReason: providers.StopToolUse, ResponseID: "r1", ResponseModel: "m-1",
			Usage: providers.Usage{Input: 5, Output: 9, CacheRead: 15, Total: 29},
		},
	)
}

// covers: providers/155
func TestDecodeContent(t *testing.T) {
	for name, tt := range map[string]struct{ delta, text, thought string }{
		"text":                     {`{"content":"a"}`, "a", ""},
		"null":                     {`{"content":null}`, "", ""},
		"none":                     {`{}`, "", ""},
		"empty list":               {`{"content":[]}`, "", ""},
		"texts in a list":          {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "ab", ""},
		"thinking of several":      {`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, "", "ab"},
		"references are left out":  {`{"content":[{"type":"reference","reference_ids":[1]},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"a"}]}`, "a", ""},
		"references in thinking":   {`{"content":[{"type":"thinking","thinking":[{"type":"reference","text":7},{"type":"text","text":"a"}]}]}`, "", "a"},
		"others may use the names": {`{"content":[{"type":"new","text":{},"thinking":1},{"type":"text","text":"a"}]}`, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			events, failure := read(t, `{"choices":[{"delta":`+tt.delta+`,"finish_reason":"stop"}]}`, `[DONE]`)
			if failure != nil {
				t.Fatal(failure)
			}
			text, thought := "", ""
			for _, e := range events {
				switch e := e.(type) {
				case providers.TextDelta:
					text += e.Text
				case providers.ReasoningDelta:
					thought += e.Text
				}
			}
			if text != tt.text || thought != tt.thought {
				t.Errorf("got text %q and reasoning %q, want %q and %q", text, thought, tt.text, tt.thought)
			}
		})
	}
}

func TestDecodeCalls(t *testing.T) {
	calls := func(s string) string { return `{"choices":[{"delta":{"tool_calls":[` + s + `]}}]}` }
	end := func(i int, id, name, arguments string) providers.ToolCallEnd {
		return providers.ToolCallEnd{Index: i, ID: id, Name: name, Arguments: json.RawMessage(arguments)}
	}
	for name, tt := range map[string]struct {
		payloads []string
		want     []providers.ToolCallEnd
	}{
		"whole, without an index": {[]string{calls(`{"id":"aaaaaaaaa","function":{"name":"f","arguments":"{}"}},{"id":"bbbbbbbbb","function":{"name":"g","arguments":"{}"}}`)},
			[]providers.ToolCallEnd{end(0, "aaaaaaaaa", "f", `{}`), end(1, "bbbbbbbbb", "g", `{}`)}},
		"in pieces with an index": {[]string{
			calls(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}}`),
			calls(`{"index":0,"function":{"name":"","arguments":":1}"}}`),
		}, []providers.ToolCallEnd{end(0, "a", "f", `{"x":1}`)}},
		"no id": {[]string{calls(`{"id":"null","function":{"name":"f","arguments":"{}"}},{"id":"null","function":{"name":"f","arguments":"{}"}}`)},
			[]providers.ToolCallEnd{end(0, "", "f", `{}`), end(1, "", "f", `{}`)}},
		"arguments as object": {[]string{calls(`{"id":"a","function":{"name":"f","arguments":{"n":12345678901234567890}}}`)},
			[]providers.ToolCallEnd{end(0, "a", "f", `{"n":12345678901234567890}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			providertest.ReadsCalls(t, mistralconversations.NewCodec(nil), providertest.Payloads(append(tt.payloads, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)...), tt.want...)
		})
	}
}

func TestDecodeStopReasons(t *testing.T) {
	for finish, want := range map[string]providers.StopReason{
		"stop": providers.StopStop, "length": providers.StopLength, "model_length": providers.StopLength, "tool_calls": providers.StopStop,
	} {
		events, failure := read(t, `{"choices":[{"delta":{"content":"a"},"finish_reason":"`+finish+`"}]}`)
		if failure != nil {
			t.Fatal(failure)
		}
		if got := events[len(events)-1].(providers.Done).StopReason; got != want {
			t.Errorf("%s is %q, want %q", finish, got, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	const text = `{"choices":[{"delta":{"content":"a"}}]}`
	for name, tt := range map[string]struct {
		last string
		kind providers.ErrorKind
	}{
		"no finish":             {text, providers.KindTruncated},
		"marker without finish": {`[DONE]`, providers.KindTruncated},
		"the vendor failed":     {`{"choices":[{"delta":{},"finish_reason":"error"}]}`, providers.KindOverloaded},
		"error object":          {`{"error":{"message":"try later","type":"server_error"}}`, providers.KindOverloaded},
		"error at the top":      {`{"object":"error","message":"Internal server error","code":"1000"}`, providers.KindOverloaded},
		"not JSON":              {`{"choices":`, providers.KindProtocol},
		"wrong content":         {`{"choices":[{"delta":{"content":7}}]}`, providers.KindProtocol},
		"wrong text":            {`{"choices":[{"delta":{"content":[{"type":"text","text":7}]}}]}`, providers.KindProtocol},
		"wrong thinking":        {`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":7}]}}]}`, providers.KindProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			events, e := read(t, text, tt.last)
			if e == nil || e.Kind != tt.kind || e.Status < 200 {
				t.Fatalf("got %+v, want kind %s", e, tt.kind)
			}
			if len(events) == 0 {
				t.Error("got no text before the error")
			}
		})
	}
}

// covers: providers/124
func TestDecodeUsage(t *testing.T) {
	for usage, want := range map[string]providers.Usage{
		`null`: {},
		`{"prompt_tokens":3,"completion_tokens":4}`:                                    {Input: 3, Output: 4, Total: 7},
		`{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":5}}`:              {Input: 4, CacheRead: 5, Total: 9},
		`{"prompt_tokens":9,"num_cached_tokens":5}`:                                    {Input: 4, CacheRead: 5, Total: 9},
		`{"prompt_tokens":9,"prompt_token_details":{"num_cached_tokens":5}}`:           {Input: 4, CacheRead: 5, Total: 9},
		`{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":5},"other":true}`: {CacheRead: 5, Total: 5},
	} {
		events, failure := read(t, `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":`+usage+`}`)
		if failure != nil {
			t.Fatal(failure)
		}
		if diff := cmp.Diff(want, events[len(events)-1].(providers.Done).Usage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", usage, diff)
		}
	}
}

// FuzzDecode checks that no input breaks the order of events.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(recording))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\"},{\"type\":\"thinking\",\"thinking\":null}]},\"finish_reason\":\"length\"}]}\n\n"))
	f.Add([]byte("data: {\"object\":\"error\",\"message\":{\"detail\":[]}}\r\n\r\n"))
	codec := mistralconversations.NewCodec(&mistralconversations.Options{MaxEventBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, broken := providertest.Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"},
			func(a *providers.Assembler) error { return codec.Decode(strings.NewReader(string(body)), a) }))
		if broken != nil {
			t.Fatal(broken)
		}
	})
}
