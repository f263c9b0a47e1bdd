package providertest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/providers"
)

// Wire encodes responses of a format, for RunOddities. A function is nil if the format has no such
// content.
type Wire struct {
	Codec   providers.Codec
	Framing Framing // nil means SSE
	// Text encodes a piece of text given as a JSON string, which may contain half of a surrogate pair.
	Text func(quoted string) []string
	// Call encodes a call: its name and the pieces of its arguments as JSON strings.
	Call func(name string, arguments ...string) []string
	// Whole reports that arguments are one JSON value, not pieces of text.
	Whole bool
	// End encodes the end of a response, with the vendor's stop reason and the usage as JSON.
	End func(word, usage string) []string
	// Stop and Calls are the format's stop reasons. Count is the usage member that counts output.
	Stop, Calls, Count string
	// FixedWords reports that the format has no stop reasons of other servers, because it ends by
	// events.
	FixedWords bool
	// Document is a response without streaming whose text is "Hi".
	Document string
}

type reply struct {
	Text  string
	Calls []string // name and arguments
	Bad   bool     // a call is malformed
	Stop  providers.StopReason
	Kind  providers.ErrorKind
	Odd   []string
}

func (w Wire) read(t *testing.T, events ...[]string) reply {
	t.Helper()
	return w.readBody(t, Frames(w.Framing, slices.Concat(events...)...), nil)
}

func (w Wire) readBody(t *testing.T, body string, tools []providers.Tool) (out reply) {
	t.Helper()
	events, failure, broken := Collect(providers.NewStream(t.Context(), providers.Model{Provider: "p"}, func(a *providers.Assembler) error {
		a.Watch(tools, func(o providers.Oddity) { out.Odd = append(out.Odd, o.Kind) })
		return w.Codec.Decode(strings.NewReader(body), a)
	}))
	if broken != nil {
		t.Fatalf("%s: %v", body, broken)
	}
	out.Text = text(events)
	for _, e := range events {
		switch e := e.(type) {
		case providers.ToolCallEnd:
			out.Calls = append(out.Calls, e.Name+string(e.Arguments))
			out.Bad = out.Bad || e.Malformed
		case providers.Done:
			out.Stop = e.StopReason
		}
	}
	if failure != nil {
		out.Kind = failure.Kind
	}
	return out
}

// RunOddities verifies the decoding of responses that other servers of the format send, but not its
// vendor.
func RunOddities(t *testing.T, w Wire) {
	t.Run("usage", func(t *testing.T) { w.testUsage(t) })
	t.Run("split characters", func(t *testing.T) { w.testSplit(t) })
	t.Run("arguments", func(t *testing.T) { w.testArguments(t) })
	t.Run("names", func(t *testing.T) { w.testNames(t) })
	t.Run("ends", func(t *testing.T) { w.testEnds(t) })
	t.Run("one document", func(t *testing.T) { w.testDocument(t) })
}

func (w Wire) testUsage(t *testing.T) {
	for usage, want := range map[string]int64{
		"": 0, "7": 0, `"much"`: 0, "[]": 0, `{"x":{"y":[7]}}`: 0,
		`{"COUNT":1}`: 1, `{"COUNT":1.0}`: 1, `{"COUNT":"1"}`: 1, `{"COUNT":" 1.0 "}`: 1, `{"COUNT":1e0}`: 1,
		`{"COUNT":null}`: 0, `{"COUNT":{"total":1}}`: 0, `{"COUNT":[1]}`: 0, `{"COUNT":true}`: 0, `{"COUNT":"many"}`: 0, `{"COUNT":-1}`: 0, `{"COUNT":1e400}`: 0,
		`{"COUNT":1,"cost":{"total_cost":0.005},"total_tokens":"?"}`: 1,
	} {
		usage = strings.ReplaceAll(usage, "COUNT", w.Count)
		if usage == "" {
			usage = "null"
		}
		body := Frames(w.Framing, slices.Concat(w.Text(`"Hi"`), w.End(w.Stop, usage))...)
		events, failure := Decode(t, w.Codec, body)
		if failure != nil {
			t.Errorf("usage %s: got %v, want an answer", usage, failure)
			continue
		}
		if got := events[len(events)-1].(providers.Done).Usage.Output; got != want {
			t.Errorf("usage %s: got %d tokens, want %d", usage, got, want)
		}
	}
}

// Frames encodes events as a stream.
func Frames(f Framing, events ...string) string {
	var b strings.Builder
	for _, e := range events {
		b.Write(framingOr(f).Frame(e))
	}
	return b.String()
}

func (w Wire) testSplit(t *testing.T) {
	for _, tt := range []struct {
		pieces []string
		want   string
	}{
		{[]string{`"ok \ud83d"`, `"\ude00!"`}, "ok 😀!"},
		{[]string{`"\uD83D"`, `"\uDE00"`}, "😀"},
		{[]string{`"\ud83d\ude00"`}, "😀"},
		{[]string{`"a\ud83d"`, `"b"`}, "a\ufffdb"},
		{[]string{`"a\ud83d"`}, "a\ufffd"},
		{[]string{`"\ude00a"`}, "\ufffda"},
		{[]string{`"\ud83d"`, `"\ud83d"`, `"\ude00"`}, "\ufffd😀"},
		{[]string{"\"a\xf0\x9f\"", "\"\x98\x80b\""}, "a😀b"},
		{[]string{`"\"\\\/\b\f\n\r\t\u00e4"`}, "\"\\/\b\f\n\r\tä"},
	} {
		var events [][]string
		for _, p := range tt.pieces {
			events = append(events, w.Text(p))
		}
		if got := w.read(t, append(events, w.End(w.Stop, "null"))...); got.Text != tt.want || got.Stop != providers.StopStop {
			t.Errorf("%q: got %q, %s, want %q", tt.pieces, got.Text, got.Stop, tt.want)
		}
	}
}

func quote(t *testing.T, pieces []string) (out []string) {
	for _, p := range pieces {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func (w Wire) testArguments(t *testing.T) {
	for _, tt := range []struct {
		pieces []string
		want   string
		bad    bool
	}{
		{[]string{"null"}, "{}", false},
		{[]string{"nu", "ll"}, "{}", false},
		{[]string{""}, "{}", false},
		{[]string{" \n"}, "{}", false},
		{[]string{"{}"}, "{}", false},
		{[]string{"{", "}"}, "{}", false},
		{[]string{"{}", `{"city":"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{"{}", `{"city":`, `"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{"{", "}", `{"city":"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{"null", `{"city":"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{`""`, `{"city":"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{`{"city":`, `"Paris"}`, `{"city":"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{`{"city":"Paris"}`, `{"city": "Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{`{"city":"Paris"}`, `{"ci`, `ty":"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{`{"city":"Paris"}{"city":"Paris"}`}, `{"city":"Paris"}`, false},
		{[]string{`{"city":"Paris"}`, " \n"}, `{"city":"Paris"}`, false},
		{[]string{`"{\"n\":12345678901234567890}"`}, `{"n":12345678901234567890}`, false},
		{[]string{`"{\"n\"`, `:1}"`}, `{"n":1}`, false},
		{[]string{`"\"{\\\"n\\\":1}\""`}, `{"n":1}`, false},
		{[]string{`"null"`}, `{}`, false},
		{[]string{`{"s":"}{"}`}, `{"s":"}{"}`, false},
		{[]string{`{"s":"\"}"}`}, `{"s":"\"}"}`, false},
		{[]string{"{\"s\":\"a\nb\"}"}, `"{\"s\":\"a\nb\"}"`, true},
		{[]string{`{"n":1}`, `{"n":2}`}, `"{\"n\":1}{\"n\":2}"`, true},
		{[]string{`{"n":`}, `"{\"n\":"`, true},
	} {
		if w.Whole && len(tt.pieces) != 1 || w.Whole && !json.Valid([]byte(tt.pieces[0])) {
			continue
		}
		pieces := tt.pieces
		if !w.Whole {
			pieces = quote(t, pieces)
		}
		got := w.read(t, w.Call("get", pieces...), w.End(w.Calls, "null"))
		if diff := cmp.Diff([]string{"get" + tt.want}, got.Calls); diff != "" || got.Bad != tt.bad || got.Stop != providers.StopToolUse {
			t.Errorf("%q: malformed %v, want %v, stop %s, (-want +got):\n%s", tt.pieces, got.Bad, tt.bad, got.Stop, diff)
		}
	}
}

func (w Wire) testNames(t *testing.T) {
	tools := []providers.Tool{{Name: "get"}, {Name: "functions.kept:0"}, {Name: "ns.get"}}
	empty := `"{}"`
	if w.Whole {
		empty = "{}"
	}
	for written, want := range map[string]string{
		"get": "get", " get": "get", "get\n": "get", "functions.get:0": "get", "functions.get": "get", "get:12": "get", `"get"`: "get", "`get`": "get",
		"default_api.get": "get", "\u200bget": "get", "get<|channel|>commentary": "get",
		"functions.kept:0": "functions.kept:0", "ns.get": "ns.get", "other": "other", "ns.other": "ns.other", "functions.other:3": "other",
	} {
		name := quote(t, []string{written})[0]
		body := Frames(w.Framing, slices.Concat(w.Call(name[1:len(name)-1], empty), w.End(w.Calls, "null"))...)
		if got := w.readBody(t, body, tools); len(got.Calls) != 1 || got.Calls[0] != want+"{}" {
			t.Errorf("%q: got %q, want %s", written, got.Calls, want)
		}
	}
}

func (w Wire) testEnds(t *testing.T) {
	if w.FixedWords {
		return
	}
	for word, want := range map[string]reply{
		"STOP": {Stop: providers.StopStop}, "end_turn": {Stop: providers.StopStop}, "stop_sequence": {Stop: providers.StopStop},
		"MAX_TOKENS": {Stop: providers.StopLength}, "max_tokens": {Stop: providers.StopLength}, "length": {Stop: providers.StopLength},
		"sensitive": {Stop: providers.StopContentFilter}, "SAFETY": {Stop: providers.StopContentFilter}, "content_filter": {Stop: providers.StopContentFilter},
		"abort": {Kind: providers.KindOverloaded}, "insufficient_system_resource": {Kind: providers.KindOverloaded}, "OTHER": {Kind: providers.KindOverloaded},
		"TOO_MANY_TOOL_CALLS": {Kind: providers.KindOverloaded}, "error": {Kind: providers.KindOverloaded},
		"FINISH_REASON_UNSPECIFIED": {Kind: providers.KindTruncated},
		"weary":                     {Stop: providers.StopStop, Odd: []string{"end"}},
	} {
		want.Text = "Hi"
		if diff := cmp.Diff(want, w.read(t, w.Text(`"Hi"`), w.End(word, "null"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", word, diff)
		}
	}
	if got := w.read(t, w.End("model_context_window_exceeded", "null")); got.Kind != providers.KindContextOverflow {
		t.Errorf("full context window: got %+v, want kind %s", got, providers.KindContextOverflow)
	}
	// An interim stop reason does not end the response.
	if got := w.read(t, w.Text(`"a"`), w.End("FINISH_REASON_UNSPECIFIED", "null"), w.Text(`"b"`), w.End(w.Stop, "null")); got.Text != "ab" && got.Kind == "" {
		t.Errorf("text after an interim stop reason: got %+v", got)
	}
}

func (w Wire) testDocument(t *testing.T) {
	for name, body := range map[string]string{
		"alone": w.Document, "with a byte order mark": "\ufeff" + w.Document, "behind blank lines": "\r\n \n" + w.Document, "in a list": "[" + w.Document + "]",
	} {
		if got := w.readBody(t, body, nil); got.Text != "Hi" || got.Stop != providers.StopStop {
			t.Errorf("%s: %s: got %+v, want the text", name, body, got)
		}
	}
	if got := w.readBody(t, w.Document[:len(w.Document)-1], nil); got.Kind != providers.KindTruncated {
		t.Errorf("truncated document: got %+v, want kind %s", got, providers.KindTruncated)
	}
}
