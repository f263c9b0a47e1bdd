package googlegenerativeai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/googlegenerativeai"
	"github.com/parleyrun/parley/providers/providertest"
)

// chunkOf returns a chunk with parts; rest are further members of its candidate.
func chunkOf(parts string, rest ...string) string {
	return fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s],"role":"model"},"index":0%s}]}`, parts, strings.Join(rest, ""))
}

func textPart(text string) string { return fmt.Sprintf(`{"text":%q}`, text) }

func signs(part, signature string) string {
	return strings.TrimSuffix(part, "}") + `,"thoughtSignature":"` + signature + `"}`
}

func ends(reason string) string {
	return fmt.Sprintf(`{"candidates":[{"finishReason":%q,"index":0}]}`, reason)
}

// recording contains every kind of output: reasoning in fragments, commentary whose last part is
// signed, two calls of which the first is signed, an unknown part, and late corrected counts.
var recording = providertest.Payloads(
	`{"candidates":[{"content":{"parts":[{"text":"Hm, ","thought":true}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":29,"totalTokenCount":29},"modelVersion":"gemini-3-pro","responseId":"r1"}`,
	chunkOf(`{"text":"néw <so>","thought":true}`),
	chunkOf(textPart("Ich ")),
	chunkOf(signs(textPart("schaue 😀"), "c2lnMQ==")),
	chunkOf(`{"executableCode":{"code":"1"},"thoughtSignature":"lost"}`),
	chunkOf(signs(`{"functionCall":{"id":"c1","name":"add","args":{"n": 12345678901234567890}}}`, "c2lnMg==")+`,{"functionCall":{"id":"c1","name":"now"}}`),
	`{"usageMetadata":{"trafficType":"ON_DEMAND","cachedContentTokenCount":12}}`,
	`{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"c2lnMw=="}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":20,"toolUsePromptTokenCount":1,"candidatesTokenCount":5,"thoughtsTokenCount":4}}`,
)

func read(t *testing.T, payloads ...string) ([]providers.Event, *providers.Error) {
	t.Helper()
	return providertest.Decode(t, googlegenerativeai.NewCodec(nil), providertest.Payloads(payloads...))
}

func TestDecodeRecording(t *testing.T) {
	providertest.Reads(t, googlegenerativeai.NewCodec(nil), recording,
		providers.ReasoningDelta{Text: "Hm, "},
		providers.ReasoningDelta{Text: "néw <so>"},
		providers.ReasoningEnd{},
		providers.TextDelta{Text: "Ich "},
		providers.TextDelta{Text: "schaue 😀"},
		providers.TextEnd{Signature: "11:c2lnMQ=="},
		providers.ToolCallStart{Index: 0, ID: "c1", Name: "add"},
		providers.ToolCallDelta{Index: 0, Arguments: `{"n": 12345678901234567890}`},
		providers.ToolCallEnd{Index: 0, ID: "c1", Name: "add", Arguments: json.RawMessage(`{"n": 12345678901234567890}`), Signature: "c2lnMg=="},
		providers.ToolCallStart{Index: 1, ID: "now_2", Name: "now"},
		providers.ToolCallEnd{Index: 1, ID: "now_2", Name: "now", Arguments: json.RawMessage(`{}`)},
		providers.TextEnd{Signature: "0:c2lnMw=="},
		providers.Done{
			StopReason: providers.StopToolUse, ResponseID: "r1", ResponseModel: "gemini-3-pro",
			Usage: providers.Usage{Input: 9, Output: 9, CacheRead: 12, Reasoning: 4, Total: 30},
		},
	)
}

// TestRoundTrip sends decoded parts back. Each signature stays on its part, and unsigned texts are
// merged.
// covers: providers/126
func TestRoundTrip(t *testing.T) {
	events, failure := providertest.Decode(t, googlegenerativeai.NewCodec(nil), recording)
	if failure != nil {
		t.Fatal(failure)
	}
	want := `[{"role":"model","parts":[
		{"text":"Hm, néw <so>","thought":true}, {"text":"Ich "}, {"text":"schaue 😀","thoughtSignature":"c2lnMQ=="},
		{"functionCall":{"id":"c1","name":"add","args":{"n":12345678901234567890}},"thoughtSignature":"c2lnMg=="},
		{"functionCall":{"id":"now_2","name":"now","args":{}}}, {"text":"","thoughtSignature":"c2lnMw=="}
	]}]`
	got := contents(t, third, providertest.MessageOf("p/gemini-3-pro", events))
	if diff := cmp.Diff(providertest.Canonical(t, want), withoutResults(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// shortly returns a short form of a response.
func shortly(events []providers.Event) string {
	var out []string
	for _, p := range providertest.MessageOf("p/m", events).Parts {
		switch p := p.(type) {
		case providers.Text:
			out = append(out, "text "+p.Text+"|"+p.Signature)
		case providers.Reasoning:
			out = append(out, "reasoning "+p.Text+"|"+p.Signature)
		case providers.ToolCall:
			out = append(out, "call "+p.ID+string(p.Arguments)+"|"+p.Signature)
		}
	}
	return strings.Join(out, ", ")
}

// covers: providers/126
func TestDecodeParts(t *testing.T) {
	thought := `{"text":"hm","thought":true}`
	for _, tt := range []struct {
		name     string
		payloads []string
		want     string
	}{
		{"text signed at once", []string{chunkOf(signs(textPart("a"), "s")), chunkOf(textPart("b"))}, "text a|1:s, text b|"},
		{"signed at the end, by itself", []string{chunkOf(textPart("a")), chunkOf(signs(textPart(""), "s"))}, "text a|0:s"},
		{"two signed texts", []string{chunkOf(signs(textPart("a"), "s")), chunkOf(signs(textPart("b"), "t"))}, "text a|1:s, text b|1:t"},
		{"signed reasoning", []string{chunkOf(thought), chunkOf(signs(thought, "s")), chunkOf(thought)}, "reasoning hmhm|2:s, reasoning hm|"},
		{"reasoning after text", []string{chunkOf(textPart("a") + "," + thought + "," + textPart("b"))}, "text a|, reasoning hm|, text b|"},
		{"calls without ids", []string{chunkOf(`{"functionCall":{"name":"f"}},{"functionCall":{"name":"f","args":null}}`)}, "call f_1{}|, call f_2{}|"},
		{"an id that was made", []string{chunkOf(`{"functionCall":{"id":"f_2","name":"f"}},{"functionCall":{"name":"f"}}`)}, "call f_2{}|, call f_3{}|"},
		{"text after a call", []string{chunkOf(`{"functionCall":{"name":"f","args":{"a":1}}}`), chunkOf(textPart("a"))}, `call f_1{"a":1}|, text a|`},
		{"another candidate", []string{`{"candidates":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]},"index":1}]}`}, "text a|"},
		{"unknown parts", []string{chunkOf(`{"inlineData":{"mimeType":"image/png","data":"x"}},{"thought":true},{},` + textPart("a"))}, "text a|"},
		{"no parts", []string{`{"candidates":[{"content":{}}]}`, `{"candidates":[{}]}`, `{}`, chunkOf(textPart("a"))}, "text a|"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, failure := read(t, append(tt.payloads, ends("STOP"))...)
			if failure != nil {
				t.Fatal(failure)
			}
			if diff := cmp.Diff(tt.want, shortly(events)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// covers: providers/131
func TestDecodeEnds(t *testing.T) {
	blocked := `{"promptFeedback":{"blockReason":"MODEL_ARMOR"},"usageMetadata":{"trafficType":"ON_DEMAND"}}`
	for _, tt := range []struct {
		payloads []string
		want     providers.StopReason
	}{
		{[]string{chunkOf(textPart("a")), ends("STOP")}, providers.StopStop},
		{[]string{chunkOf(textPart("a"), `,"finishReason":"STOP"`)}, providers.StopStop},
		{[]string{chunkOf(`{"functionCall":{"name":"f"}}`, `,"finishReason":"STOP"`)}, providers.StopToolUse},
		{[]string{ends("MAX_TOKENS")}, providers.StopLength},
		{[]string{ends("CONTINUATION")}, providers.StopLength},
		{[]string{ends("SAFETY")}, providers.StopContentFilter},
		{[]string{ends("RECITATION")}, providers.StopContentFilter},
		{[]string{ends("IMAGE_SAFETY")}, providers.StopContentFilter},
		{[]string{blocked}, providers.StopContentFilter},
		{[]string{ends("STOP"), `{"usageMetadata":{"promptTokenCount":3}}`}, providers.StopStop},
		{[]string{ends("STOP"), `{"cut`}, providers.StopStop},
	} {
		events, failure := read(t, tt.payloads...)
		if failure != nil {
			t.Errorf("%s: got %v", tt.payloads, failure)
			continue
		}
		if done := events[len(events)-1].(providers.Done); done.StopReason != tt.want {
			t.Errorf("%s: got %+v, want %s", tt.payloads, done, tt.want)
		}
	}
}

// covers: providers/131
func TestDecodeErrors(t *testing.T) {
	limited := `{"error":{"code":429,"message":"You exceeded your current quota. Quota exceeded for metric: x","status":"RESOURCE_EXHAUSTED",` +
		`"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.4s"}]}}`
	for _, tt := range []struct {
		name     string
		payloads []string
		kind     providers.ErrorKind
		status   int
		code     string
	}{
		{"no end", nil, providers.KindTruncated, 200, ""},
		{"marker of another format", []string{"[DONE]"}, providers.KindProtocol, 200, ""},
		{"overloaded", []string{`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`}, providers.KindOverloaded, 503, "UNAVAILABLE"},
		{"in an array", []string{`[{"error":{"code":500,"message":"m","status":"INTERNAL"}}]`}, providers.KindOverloaded, 500, "INTERNAL"},
		{"rate limit", []string{limited}, providers.KindRateLimit, 429, "RESOURCE_EXHAUSTED"},
		{"an error behind the end", []string{ends("STOP"), limited}, providers.KindRateLimit, 429, "RESOURCE_EXHAUSTED"},
		{"no proper call", []string{ends("MALFORMED_FUNCTION_CALL")}, providers.KindOverloaded, 500, "MALFORMED_FUNCTION_CALL"},
		{"an array of chunks", []string{"[" + chunkOf(textPart("a")) + "]"}, providers.KindProtocol, 200, ""},
		{"other", []string{ends("OTHER")}, providers.KindOverloaded, 500, "OTHER"},
		{"too many calls", []string{ends("TOO_MANY_TOOL_CALLS")}, providers.KindOverloaded, 500, "TOO_MANY_TOOL_CALLS"},
		{"not JSON", []string{`{"candidates":`}, providers.KindProtocol, 200, ""},
		{"no end behind an interim reason", []string{ends("FINISH_REASON_UNSPECIFIED")}, providers.KindTruncated, 200, ""},
		{"wrong parts", []string{`{"candidates":[{"content":{"parts":7}}]}`}, providers.KindProtocol, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, e := read(t, append([]string{chunkOf(textPart("a"))}, tt.payloads...)...)
			if e == nil || e.Kind != tt.kind || e.Status != tt.status {
				t.Fatalf("got %+v, want kind %s, status %d", e, tt.kind, tt.status)
			}
			if len(events) == 0 {
				t.Error("got no text before the error")
			}
			if tt.code != "" && !strings.Contains(e.Error(), tt.code) {
				t.Errorf("error %v lacks %s", e, tt.code)
			}
			if want := tt.kind == providers.KindRateLimit; want != (e.RetryAfter.Seconds() == 34.4) {
				t.Errorf("got retry after %v", e.RetryAfter)
			}
		})
	}
}

// TestDecodeNoStream reads responses and errors that are not streamed.
func TestDecodeNoStream(t *testing.T) {
	for _, tt := range []struct {
		body string
		kind providers.ErrorKind
	}{
		{"[" + chunkOf(textPart("a")) + ",\n" + ends("STOP") + "]", ""},
		{chunkOf(textPart("a"), `,"finishReason":"STOP"`), ""},
		{`[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`, providers.KindOverloaded},
		{`{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}`, providers.KindAuth},
	} {
		_, e := providertest.Decode(t, googlegenerativeai.NewCodec(nil), tt.body)
		if (e == nil) != (tt.kind == "") || e != nil && (e.Kind != tt.kind || !strings.Contains(tt.body, string(e.Body))) {
			t.Errorf("%s: got %+v, want kind %q", tt.body, e, tt.kind)
		}
	}
}

func TestDecodeEventLimit(t *testing.T) {
	body := providertest.Payloads(chunkOf(textPart(strings.Repeat("a", 2<<20))), ends("STOP"))
	if _, failure := providertest.Decode(t, googlegenerativeai.NewCodec(nil), body); failure != nil {
		t.Errorf("event of 2 MiB: got %v", failure)
	}
	_, failure := providertest.Decode(t, googlegenerativeai.NewCodec(&googlegenerativeai.Options{MaxEventBytes: 1 << 20}), body)
	if failure == nil || failure.Kind != providers.KindProtocol {
		t.Errorf("got %v, want kind %s", failure, providers.KindProtocol)
	}
}

// TestEndless checks the reply limits for every kind of endless output.
func TestEndless(t *testing.T) {
	x := strings.Repeat("x", 1000)
	of := func(part string) func(int) string { return func(int) string { return chunkOf(part) } }
	providertest.RunEndless(t, googlegenerativeai.NewCodec(nil), nil, map[providers.Limited]map[string]func(int) string{
		providers.LimitedReply: {
			"text":            of(textPart(x)),
			"reasoning":       of(`{"text":"` + x + `","thought":true}`),
			"signatures":      of(signs(textPart(""), x)),
			"parts of a byte": of(textPart("x") + `,{"text":"x","thought":true}`),
			"behind the end":  func(int) string { return chunkOf(textPart(x), `,"finishReason":"STOP"`) },
		},
		providers.LimitedArguments: {
			"arguments": of(`{"functionCall":{"name":"f","args":{"n":"` + strings.Repeat(x, 100) + `"}}}`),
		},
		providers.LimitedCalls: {
			"calls":            of(`{"functionCall":{"id":"c","name":"f"}}`),
			"calls of a chunk": of(strings.Repeat(`{"functionCall":{"name":"f","args":{"a":1}}},`, 40) + textPart("a")),
		},
	})
}

// FuzzDecode checks that no input breaks the order of events.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(recording))
	f.Add([]byte("data: " + chunkOf(signs(`{"functionCall":{"args":[]}}`, "s"), `,"finishReason":"STOP"`) + "\r\n\r\ndata: {\"usageMetadata\":{\"promptTokenCount\":-1}}"))
	f.Add([]byte("data: [{\"error\":{\"message\":1}}]\r\n\r\n"))
	f.Add([]byte(`[{"error":{"code":429,"details":[{"@type":"google.rpc.RetryInfo","retryDelay":"x"}]}}]`))
	f.Add([]byte("data: {\"promptFeedback\":{\"blockReason\":\"OTHER\"}}"))
	codec := googlegenerativeai.NewCodec(&googlegenerativeai.Options{MaxEventBytes: 1 << 16})
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _, broken := providertest.Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"},
			func(a *providers.Assembler) error { return codec.Decode(strings.NewReader(string(body)), a) }))
		if broken != nil {
			t.Fatal(broken)
		}
	})
}

// BenchmarkDecode decodes a reply that is available at once.
func BenchmarkDecode(b *testing.B) {
	providertest.BenchmarkDecode(b, googlegenerativeai.NewCodec(nil), []byte(recording))
}
