package bedrockconverse_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/bedrockconverse"
	"github.com/parleyrun/parley/providers/eventstream"
	"github.com/parleyrun/parley/providers/providertest"
)

func decode(t *testing.T, body string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return providertest.Decode(t, newCodec(), body)
}

// covers: providers/165
func TestDecodeWholeResponse(t *testing.T) {
	body, _ := recording()
	providertest.Reads(t, newCodec(), body,
		providers.ReasoningDelta{Text: "Hm, "}, providers.ReasoningDelta{Text: "néw"}, providers.ReasoningEnd{Signature: "c2ln"},
		providers.TextDelta{Text: "Grüße 😀"},
		providers.ReasoningEnd{Signature: `{"redactedContent":"cmVk"}`},
		providers.ReasoningDelta{Text: "so"}, providers.ReasoningEnd{Signature: "c28="},
		providers.ToolCallStart{Index: 0, ID: "tooluse_0", Name: "add"},
		providers.ToolCallDelta{Index: 0, Arguments: `{"n":123456789`}, providers.ToolCallDelta{Index: 0, Arguments: `01234567890}`},
		providers.ToolCallEnd{Index: 0, ID: "tooluse_0", Name: "add", Arguments: json.RawMessage(`{"n":12345678901234567890}`)},
		providers.ToolCallStart{Index: 1, ID: "tooluse_1", Name: "now"},
		providers.ToolCallEnd{Index: 1, ID: "tooluse_1", Name: "now", Arguments: json.RawMessage(`{}`)},
		providers.Done{
			StopReason: providers.StopToolUse, CacheWriteHour: 20,
			Usage: providers.Usage{Input: 5, Output: 9, CacheRead: 20, CacheWrite: 30, Total: 64},
		},
	)
}

// TestDecodeEnds covers the ends of responses.
func TestDecodeEnds(t *testing.T) {
	whole := func(reason string) []string {
		return []string{begin, delta("0", text("a")), stop("0"), `messageStop {"stopReason":"` + reason + `"}`, used}
	}
	for name, tt := range map[string]struct {
		events []string
		stop   providers.StopReason
		kind   providers.ErrorKind
		status int
	}{
		"end":               {whole("end_turn"), providers.StopStop, "", 0},
		"stop sequence":     {whole("stop_sequence"), providers.StopStop, "", 0},
		"limit":             {whole("max_tokens"), providers.StopLength, "", 0},
		"window":            {whole("model_context_window_exceeded"), providers.StopLength, "", 0},
		"guardrail":         {whole("guardrail_intervened"), providers.StopContentFilter, "", 0},
		"filter":            {whole("content_filtered"), providers.StopContentFilter, "", 0},
		"malformed output":  {whole("malformed_model_output"), "", providers.KindOverloaded, 500},
		"malformed call":    {whole("malformed_tool_use"), "", providers.KindOverloaded, 500},
		"unknown":           {whole("tired"), providers.StopStop, "", 0},
		"no reason":         {[]string{begin, `messageStop {}`}, "", providers.KindTruncated, 200},
		"no usage":          {whole("end_turn")[:4], providers.StopStop, "", 0},
		"usage first":       {[]string{begin, delta("0", text("a")), used, end}, providers.StopStop, "", 0},
		"no stop":           {whole("end_turn")[:3], "", providers.KindTruncated, 200},
		"usage and no stop": {[]string{begin, delta("0", text("a")), used}, "", providers.KindTruncated, 200},
		"nothing":           {nil, "", providers.KindTruncated, 200},
	} {
		t.Run(name, func(t *testing.T) {
			events, failure := decode(t, stream(tt.events...))
			if tt.kind != "" {
				if failure == nil || failure.Kind != tt.kind || failure.Status != tt.status {
					t.Errorf("got %v, want %s", failure, tt.kind)
				}
				return
			}
			if done, ok := events[len(events)-1].(providers.Done); failure != nil || !ok || done.StopReason != tt.stop {
				t.Errorf("got %+v, %v, want %s", events, failure, tt.stop)
			}
		})
	}
}

// TestDecodeExceptions: an exception has its status outside a stream.
// covers: providers/169
func TestDecodeExceptions(t *testing.T) {
	unmodeled := eventstream.AppendMessage(nil, []eventstream.Header{
		{Name: ":message-type", Value: "error"}, {Name: ":error-code", Value: "InternalFailure"}, {Name: ":error-message", Value: "something broke"},
	}, nil)
	for name, tt := range map[string]struct {
		body          string
		kind          providers.ErrorKind
		status        int
		code, message string
	}{
		"server":        {stream(`internalServerException {"message":"m"}`), providers.KindOverloaded, 500, "internalServerException", "m"},
		"unavailable":   {stream(`serviceUnavailableException {"message":"m"}`), providers.KindOverloaded, 503, "serviceUnavailableException", "m"},
		"throttled":     {stream(`throttlingException {"message":"Too many tokens"}`), providers.KindRateLimit, 429, "throttlingException", "Too many tokens"},
		"timeout":       {stream(`modelTimeoutException {"message":"m"}`), providers.KindOverloaded, 408, "modelTimeoutException", "m"},
		"invalid":       {stream(`validationException {"message":"m"}`), providers.KindInvalidRequest, 400, "validationException", "m"},
		"overflow":      {stream(`validationException {"message":"Input is too long for requested model."}`), providers.KindContextOverflow, 400, "validationException", "Input is too long for requested model."},
		"model":         {stream(`modelStreamErrorException {"message":"m"}`), providers.KindOverloaded, 500, "modelStreamErrorException", "m"},
		"model refused": {stream(`modelStreamErrorException {"message":"m","originalStatusCode":400,"originalMessage":"o"}`), providers.KindInvalidRequest, 400, "modelStreamErrorException", "m"},
		"model is busy": {stream(`modelStreamErrorException {"message":"m","originalStatusCode":529}`), providers.KindOverloaded, 529, "modelStreamErrorException", "m"},
		"no status":     {stream(`modelStreamErrorException {"message":"m","originalStatusCode":7}`), providers.KindOverloaded, 500, "modelStreamErrorException", "m"},
		"unknown":       {stream(`novelException {"message":"m"}`), providers.KindProtocol, 200, "novelException", "m"},
		"no JSON":       {stream(`throttlingException oops`), providers.KindRateLimit, 429, "throttlingException", ""},
		"error":         {string(unmodeled), providers.KindOverloaded, 500, "InternalFailure", "something broke"},
	} {
		t.Run(name, func(t *testing.T) {
			events, failure := decode(t, stream(begin, delta("0", text("a")))+tt.body)
			var vendor *providers.VendorError
			if failure == nil || failure.Kind != tt.kind || failure.Status != tt.status || !errors.As(failure, &vendor) ||
				vendor.Code != tt.code || vendor.Message != tt.message || len(events) != 1 {
				t.Errorf("got %d events, %+v", len(events), failure)
			}
		})
	}
}

// TestDecodeUnusual covers unusual valid streams and invalid ones.
func TestDecodeUnusual(t *testing.T) {
	corrupt := []byte(stream(begin, delta("0", text("a"))))
	corrupt[len(corrupt)-6] ^= 1
	for name, tt := range map[string]struct {
		body string
		kind providers.ErrorKind
		want []providers.Event // without Done
	}{
		"reasoning without a signature": {stream(delta("0", thought("text", "a")), stop("0"), delta("1", text("b")), end), "",
			[]providers.Event{providers.ReasoningDelta{Text: "a"}, providers.ReasoningEnd{}, providers.TextDelta{Text: "b"}}},
		"a signature in pieces": {stream(delta("0", thought("signature", "a")), delta("0", thought("signature", "b")), end), "",
			[]providers.Event{providers.ReasoningEnd{Signature: "ab"}}},
		"redacted in pieces": {stream(delta("0", thought("redactedContent", "YQ==")), delta("0", thought("redactedContent", "Yg==")), end), "",
			[]providers.Event{providers.ReasoningEnd{Signature: `{"redactedContent":"YWI="}`}}},
		"reasoning after its end": {stream(delta("0", thought("text", "a")), delta("1", text("b")), delta("0", thought("text", "c")), end), "",
			[]providers.Event{providers.ReasoningDelta{Text: "a"}, providers.ReasoningEnd{}, providers.TextDelta{Text: "b"}}},
		"empty text within reasoning": {stream(delta("1", thought("text", "a")), delta("0", text("")), delta("1", thought("text", "b")), end), "",
			[]providers.Event{providers.ReasoningDelta{Text: "a"}, providers.ReasoningDelta{Text: "b"}, providers.ReasoningEnd{}}},
		"no stops of blocks": {stream(start("0", "c", "f"), delta("0", input("{}")), `messageStop {"stopReason":"tool_use"}`, used), "",
			[]providers.Event{providers.ToolCallStart{ID: "c", Name: "f"}, providers.ToolCallDelta{Arguments: "{}"}, providers.ToolCallEnd{ID: "c", Name: "f", Arguments: json.RawMessage("{}")}}},
		"stop of nothing": {stream(stop("7"), end), "", nil},
		"negative usage":  {stream(end, `metadata {"usage":{"inputTokens":-1}}`), "", nil},
		"delta of no call": {stream(delta("0", input("{}")), end), "",
			[]providers.Event{providers.ToolCallStart{}, providers.ToolCallDelta{Arguments: "{}"}, providers.ToolCallEnd{Arguments: json.RawMessage("{}")}}},
		"delta of another kind": {stream(delta("0", thought("text", "a")), delta("0", input("{}")), end), "",
			[]providers.Event{providers.ReasoningDelta{Text: "a"}, providers.ReasoningEnd{}, providers.ToolCallStart{}, providers.ToolCallDelta{Arguments: "{}"},
				providers.ToolCallEnd{Arguments: json.RawMessage("{}")}}},
		"in one piece": {`{"output":{"message":{"content":[{"reasoningContent":{"reasoningText":{"text":"r","signature":"s"}}},{"text":"a"},` +
			`{"toolUse":{"toolUseId":"c","name":"f","input":{"n":1}}}]}},"stopReason":"tool_use","usage":{"inputTokens":"7"}}`, "",
			[]providers.Event{providers.ReasoningDelta{Text: "r"}, providers.ReasoningEnd{Signature: "s"}, providers.TextDelta{Text: "a"},
				providers.ToolCallStart{ID: "c", Name: "f"}, providers.ToolCallDelta{Arguments: `{"n":1}`}, providers.ToolCallEnd{ID: "c", Name: "f", Arguments: json.RawMessage(`{"n":1}`)}}},
		"no JSON":        {stream(`contentBlockDelta {`), providers.KindProtocol, nil},
		"no base64":      {stream(delta("0", thought("redactedContent", "?"))), providers.KindProtocol, nil},
		"wrong checksum": {string(corrupt), providers.KindProtocol, nil},
		"no frames":      {`{"message":"this is no stream, and long enough"}`, providers.KindProtocol, nil},
	} {
		t.Run(name, func(t *testing.T) {
			events, failure := decode(t, tt.body)
			if tt.kind != "" && (failure == nil || failure.Kind != tt.kind) || tt.kind == "" && failure != nil {
				t.Fatalf("got %v, want kind %q", failure, tt.kind)
			}
			if failure == nil {
				events = events[:len(events)-1]
			}
			if diff := cmp.Diff(tt.want, append([]providers.Event(nil), events...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMessageOverTheLimit checks the message limit of the codec.
func TestMessageOverTheLimit(t *testing.T) {
	c := bedrockconverse.NewCodec(&bedrockconverse.Options{Getenv: nothing, MaxMessageBytes: 1000})
	_, failure := providertest.Decode(t, c, stream(begin, delta("0", text(strings.Repeat("x", 1000)))))
	if failure == nil || failure.Kind != providers.KindProtocol {
		t.Errorf("got %v", failure)
	}
}

// FuzzDecode checks that arbitrary input yields a valid stream of events.
func FuzzDecode(f *testing.F) {
	body, complete := recording()
	f.Add([]byte(body))
	f.Add([]byte(body[:complete]))
	f.Add([]byte(body[:complete/2]))
	f.Add([]byte(stream(begin, `throttlingException {"message":"m"}`)))
	f.Add([]byte(stream(delta("0", thought("redactedContent", "?")))))
	f.Fuzz(func(t *testing.T, body []byte) { decode(t, string(body)) })
}

// FuzzDecodeEvents does the same inside valid frames.
func FuzzDecodeEvents(f *testing.F) {
	f.Add("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"a"}}`, "contentBlockStart", `{"start":{"toolUse":{"toolUseId":"a","name":"b"}}}`)
	f.Add("contentBlockDelta", `{"delta":{"reasoningContent":{"text":"a"}}}`, "contentBlockStop", `{"contentBlockIndex":0}`)
	f.Add("contentBlockDelta", `{"delta":{"reasoningContent":{"redactedContent":"YQ=="}}}`, "metadata", `{"usage":{"cacheDetails":[{"ttl":"1h","inputTokens":-9223372036854775808}]}}`)
	f.Add("messageStop", `{"stopReason":"end_turn"}`, "validationException", `{"message":"m","originalStatusCode":1e3}`)
	f.Fuzz(func(t *testing.T, kind, payload, kind2, payload2 string) {
		if len(kind)+len(kind2) > 100 {
			return
		}
		event, event2 := fmt.Sprint(strings.ReplaceAll(kind, " ", ""), " ", payload), fmt.Sprint(strings.ReplaceAll(kind2, " ", ""), " ", payload2)
		decode(t, stream(event, event2, event, event2, end, used))
	})
}
