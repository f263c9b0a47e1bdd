package conversation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func sized(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

// covers: protocol/194
func TestCheckPayload(t *testing.T) {
	const taken = ""
	brackets := strings.Repeat("[{", conversation.MaxPayloadNesting)
	for _, tc := range []struct{ name, raw, want string }{
		{"scalar", `7`, taken},
		{"null", `null`, taken},
		{"object", `{"a":[1,{"b":"c"}]}`, taken},
		{"largest", sized(conversation.MaxPayloadBytes), taken},
		{"a byte too large", sized(conversation.MaxPayloadBytes + 1), "bytes"},
		{"deepest", nested(conversation.MaxPayloadNesting), taken},
		{"deepest of objects", strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), taken},
		{"one too deep", nested(conversation.MaxPayloadNesting + 1), "deep"},
		{"one too deep of objects", strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001), "deep"},
		{"one too deep of both", strings.Repeat(`[{"a":`, 500) + "[]" + strings.Repeat("}]", 500), "deep"},
		{"deep at the end", "[" + nested(999) + "," + nested(1000) + "]", "deep"},
		{"wide is not deep", "[" + strings.Repeat("[],", 5000) + "{}]", taken},
		{"brackets in a string", `["` + brackets + `"]`, taken},
		{"brackets in a name", `{"` + brackets + `":1}`, taken},
		{"an escaped quote does not end a string", `["\"` + brackets + `"]`, taken},
		{"an escaped backslash does not escape the quote", `["\\",` + nested(1000) + `]`, "deep"},
		{"an escaped backslash and a quote", `["\\\"` + brackets + `"]`, taken},
		{"an escape outside a string", `\"` + brackets, "is not JSON"},
		{"nothing", ``, "is not JSON"},
		{"white space", ` `, "is not JSON"},
		{"cut off", `{"a":`, "is not JSON"},
		{"two values", `1 2`, "is not JSON"},
		{"closed too often", `[]]`, "is not JSON"},
		{"an open string", `"abc`, "is not JSON"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := conversation.CheckPayload(json.RawMessage(tc.raw))
			if tc.want == taken {
				if err != nil {
					t.Errorf("got error %v, want none", err)
				}
				return
			}
			var p *conversation.PayloadError
			if !errors.As(err, &p) || !strings.Contains(p.Reason, tc.want) || err.Error() != p.Reason {
				t.Errorf("got %#v, want a PayloadError with %q", err, tc.want)
			}
		})
	}
}

// withPayload returns the records that have an untrusted value.
func withPayload(raw string) []conversation.Record {
	v := json.RawMessage(raw)
	return []conversation.Record{
		&conversation.ConversationCreated{Agent: "a", ID: "1", UID: "inst_1", ConversationID: "conv_1", InitialData: v, At: at},
		&conversation.ToolCalled{Message: "msg_1", Call: "call_1", Name: "label", Input: v, At: at},
		&conversation.ToolSettled{Call: "call_1", Output: v, At: at},
	}
}

// TestEncodedRecordsDecode tries the deepest nesting at which a line can be decoded, one less than for
// its value.
func TestEncodedRecordsDecode(t *testing.T) {
	accepted, refused := 0, 0
	for _, n := range []int{1, conversation.MaxPayloadNesting, 9_998, 9_999, 10_000, 10_001} {
		for _, r := range withPayload(nested(n)) {
			records := []conversation.Record{r}
			lines, err := conversation.EncodeRecords([]byte("head\n"), records)
			if err != nil {
				refused++
				if !strings.Contains(err.Error(), string(r.Type())) || string(lines) != "head\n" {
					t.Errorf("%s nested %d deep: error %q, %d bytes", r.Type(), n, err, len(lines))
				}
				continue
			}
			accepted++
			got, err := conversation.DecodeRecords(lines[len("head\n"):])
			if err != nil {
				t.Errorf("%s nested %d deep was encoded but does not decode: %v", r.Type(), n, err)
			} else if !cmp.Equal(records, got) {
				t.Errorf("%s nested %d deep changed", r.Type(), n)
			}
		}
	}
	if accepted < 9 || refused < 6 {
		t.Errorf("%d accepted and %d refused: limit was not reached", accepted, refused)
	}
	for _, r := range withPayload(nested(10_000)) {
		if _, err := conversation.EncodeRecords(nil, []conversation.Record{r}); err == nil {
			t.Errorf("%s nested 10,000 deep was encoded", r.Type())
		}
	}
}

// FuzzCheckPayload compares the check with the decoder: accepted values are JSON and survive a log.
func FuzzCheckPayload(f *testing.F) {
	for _, s := range []string{``, `7`, `"\"["`, `{"a":[1,"\\",{}]}`, `\"[`, nested(1000), nested(1001), `"` + strings.Repeat("[", 2000) + `"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if conversation.CheckPayload(raw) != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("accepted %q", raw)
		}
		lines, err := conversation.EncodeRecords(nil, withPayload(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conversation.DecodeRecords(lines); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzCutText checks that a cut text is within the limit, is a prefix and states the omitted size.
func FuzzCutText(f *testing.F) {
	for _, s := range []string{"", "plain", "\x00\x1f\n\t\"\\", "Grüße 😀 \u2028", "\xff\xfe", "\ufffd", "\x7f<&>"} {
		f.Add(s, 3)
		f.Add(s, 60)
	}
	f.Fuzz(func(t *testing.T, s string, times int) {
		s = strings.Repeat(s, min(max(times, 0), 200))
		if got, want := conversation.TextBytes(s), jsonBytes(t, s); got != want {
			t.Fatalf("%q takes %d bytes, want %d", s, got, want)
		}
		const limit = 120
		cut := conversation.CutText(s, limit)
		if n := jsonBytes(t, cut); n > limit {
			t.Fatalf("%q takes %d bytes, want at most %d", cut, n, limit)
		}
		begin, _, was := strings.Cut(cut, " … (")
		if cut != s && (!was || !strings.HasPrefix(s, begin) || !strings.HasSuffix(cut, fmt.Sprintf("(%d more bytes are left out)", len(s)-len(begin)))) {
			t.Errorf("%q was cut to %q", s, cut)
		}
		if cut == s && jsonBytes(t, s) > limit {
			t.Errorf("%q was not cut", s)
		}
	})
}

// jsonBytes returns the size of a text as JSON, without its quotes.
func jsonBytes(t *testing.T, s string) int {
	t.Helper()
	raw, err := conversation.EncodeJSON(s)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw) - len(`""`)
}
