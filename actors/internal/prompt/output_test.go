package prompt_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parleyrun/parley/actors/internal/prompt"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

func TestOutputBytes(t *testing.T) {
	for window, want := range map[int]int{0: 64 << 10, 1000: 4 << 10, 16_384: 4 << 10, 32_768: 8 << 10, 200_000: 50_000, 1 << 20: 64 << 10} {
		if got := prompt.OutputBytes(window); got != want {
			t.Errorf("window of %d tokens: got %d bytes, want %d", window, got, want)
		}
	}
}

func resultOf(t testing.TB, c *conversation.ToolCall, most int) (string, []providers.Message) {
	t.Helper()
	c.Settled, c.Call, c.Name = true, "call_1", "look"
	out, err := prompt.NewRenderer(nil).Messages(t.Context(), key, []conversation.Exchange{{
		Turns: []conversation.Turn{{Completed: true, Parts: []conversation.TurnPart{{Tool: c}}}},
	}}, prompt.View{Output: most})
	if err != nil {
		t.Fatal(err)
	}
	return out[len(out)-1].Parts[0].(providers.ToolResult).Content[0].(providers.Text).Text, out
}

func TestLongOutputs(t *testing.T) {
	long := strings.Repeat("0123456789", 1000)
	raw, _ := json.Marshal(long)
	for _, tt := range []struct {
		name string
		call conversation.ToolCall
		most int
		want string // "" for the whole
	}{
		{"as long as may be", conversation.ToolCall{Output: raw}, 10_000, ""},
		{"no bound", conversation.ToolCall{Output: raw}, 0, ""},
		{"a string", conversation.ToolCall{Output: raw}, 856,
			long[:400] + "\n\n[9400 of 10000 bytes omitted here. Read on with the tool read_output: call \"call_1\", from 400.]\n\n" + long[9800:]},
		{"an error", conversation.ToolCall{Failed: true, ErrorText: long}, 856,
			long[:400] + "\n\n[9400 of 10000 bytes omitted here. Read on with the tool read_output: call \"call_1\", from 400.]\n\n" + long[9800:]},
		{"JSON", conversation.ToolCall{Output: json.RawMessage(`[` + string(raw) + `]`)}, 856,
			`["` + long[:398] + "\n\n[9404 of 10004 bytes omitted here. Read on with the tool read_output: call \"call_1\", from 400.]\n\n" + long[9802:] + `"]`},
	} {
		got, messages := resultOf(t, &tt.call, tt.most)
		want := tt.want
		if want == "" {
			want = long
		}
		if got != want {
			t.Errorf("%s: got %q", tt.name, got)
		}
		if shortened := prompt.Shortened(messages); shortened != (tt.want != "") {
			t.Errorf("%s: got shortened %v", tt.name, shortened)
		}
	}
}

func TestPiece(t *testing.T) {
	text := strings.Repeat("0123456789", 100) + "needle" + strings.Repeat("é", 500)
	for _, tt := range []struct {
		name, find string
		from, most int
		want       string
		ok         bool
	}{
		{"the beginning", "", 0, 266, "[bytes 0 to 10 of 2006; read on from 10]\n0123456789", true},
		{"the end", "", 2004, 266, "[bytes 2004 to 2006 of 2006]\né", true},
		{"after the end", "", 2006, 266, "[bytes 2006 to 2006 of 2006]\n", true},
		{"within a character", "", 2005, 266, "[bytes 2004 to 2006 of 2006]\né", true},
		{"match", "needle", 0, 266, "[bytes 800 to 810 of 2006; read on from 810]\n0123456789", true},
		{"found at its place", "needle", 1000, 466, "[bytes 800 to 1010 of 2006; read on from 1010]\n" + text[800:1010], true},
		{"found before", "needle", 1001, 266, "", false},
		{"not there", "x", 0, 266, "", false},
	} {
		if got, ok := (prompt.Window{Text: text, Size: len(text)}).Piece(tt.from, tt.find, tt.most); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

// TestStoredOutput checks that the model is shown the recorded part of a stored output, or less, and
// how to read on.
func TestStoredOutput(t *testing.T) {
	long := strings.Repeat("0123456789", 1000)
	stored := &conversation.StoredOutput{Size: 10_000, Head: long[:600], Tail: long[9700:]}
	recorded := json.RawMessage(`"the shown text"`)
	for _, tt := range []struct {
		name string
		call conversation.ToolCall
		most int
		want string
	}{
		{"all that is recorded", conversation.ToolCall{Output: recorded, Stored: stored}, 0,
			long[:600] + "\n\n[9100 of 10000 bytes omitted here. Read on with the tool read_output: call \"call_1\", from 600.]\n\n" + long[9700:]},
		{"all of it has room", conversation.ToolCall{Output: recorded, Stored: stored}, 5000,
			long[:600] + "\n\n[9100 of 10000 bytes omitted here. Read on with the tool read_output: call \"call_1\", from 600.]\n\n" + long[9700:]},
		{"less", conversation.ToolCall{Output: recorded, Stored: stored}, 406,
			long[:100] + "\n\n[9850 of 10000 bytes omitted here. Read on with the tool read_output: call \"call_1\", from 100.]\n\n" + long[9950:]},
		{"of images", conversation.ToolCall{Output: json.RawMessage(`{"output":"","images":[]}`), Stored: stored}, 406,
			long[:100] + "\n\n[9850 of 10000 bytes omitted here. Read on with the tool read_output: call \"call_1\", from 100.]\n\n" + long[9950:]},
	} {
		got, messages := resultOf(t, &tt.call, tt.most)
		if got != tt.want {
			t.Errorf("%s: got %q", tt.name, got)
		}
		if !prompt.Shortened(messages) {
			t.Errorf("%s: got no note about the rest", tt.name)
		}
	}
}

func TestPart(t *testing.T) {
	for _, text := range []string{strings.Repeat("0123456789", 1000), strings.Repeat("\x00€\n", 2000), strings.Repeat("\u2028", 3000)} {
		head, tail, shown := prompt.Part(text, text, len(text), 3000)
		note := fmt.Sprintf("\n\n[%d of %d bytes omitted here.]\n\n", len(text)-len(head)-len(tail), len(text))
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || shown != head+note+tail {
			t.Errorf("%.10q: got %q", text, shown)
		}
		if h, l := conversation.TextBytes(head), conversation.TextBytes(tail); h > 2000 || h < 900 || l > 1000 || l < 400 {
			t.Errorf("%.10q: got %d and %d bytes, want at most 2000 and 1000", text, h, l)
		}
		if !utf8.ValidString(shown) {
			t.Errorf("%.10q: cut within a character", text)
		}
	}
}

// TestPartOfAShortText covers a text that is short but long as JSON.
func TestPartOfAShortText(t *testing.T) {
	if head, tail, shown := prompt.Part("0123456789", "0123456789", 10, 1000); head != "012" || tail != "9" || shown != "012\n\n[6 of 10 bytes omitted here.]\n\n9" {
		t.Errorf("got %q from head %q and tail %q", shown, head, tail)
	}
}

func TestTextPieces(t *testing.T) {
	for raw, want := range map[string]int{
		`""`: 0, `"0123456789"`: 1, `"0123456789a"`: 2, `"€€€€€€€"`: 3, `"😀😀😀😀😀😀"`: 3, `"\n\n\n\n\n\n"`: 2,
		`"\u20ac\u20ac\u20ac"`: 3, `"\ud83d\ude00\ud83d\ude00"`: 2, `"\ud83d\ud83d\ude00"`: 2, `"\ud83d"`: 1, `"\\\\\\\\\\\\"`: 2,
		`{"a":"€€€"}`: 2, `[1,2,3,4,5,6]`: 2, "\"abc\xff\xffdefghijk\"": 2,
	} {
		got := slices.Collect(prompt.TextPieces(json.RawMessage(raw), 10))
		if text := strings.ToValidUTF8(prompt.OutputText(json.RawMessage(raw)), "\uFFFD"); strings.Join(got, "") != text || len(got) != want {
			t.Errorf("pieces of %s: got %q, want %d of %q", raw, got, want, text)
		}
		for _, p := range got {
			if len(p) > 14 || !utf8.ValidString(p) {
				t.Errorf("pieces of %s: got %q, want at most 10 bytes of JSON each", raw, p)
			}
		}
	}
}

// FuzzTextPieces checks that the pieces of an output add up to its text.
func FuzzTextPieces(f *testing.F) {
	f.Add("a\n€😀\u2028", 7)
	f.Fuzz(func(t *testing.T, text string, most int) {
		raw, err := json.Marshal(text)
		if err != nil || most < 1 {
			return
		}
		if got, want := strings.Join(slices.Collect(prompt.TextPieces(raw, most)), ""), prompt.OutputText(raw); got != want {
			t.Errorf("pieces of %d bytes of %s: got %q, want %q", most, raw, got, want)
		}
	})
}

// FuzzOutput checks that following the read positions yields the whole output, within the limits and
// without split characters.
func FuzzOutput(f *testing.F) {
	f.Add(strings.Repeat("0123456789", 100), 300)
	f.Add(strings.Repeat("€", 1000), 271)
	f.Add("[1 of 2 bytes omitted here. Read on with the tool read_output: call \"c\", from 3.]", 260)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if !utf8.ValidString(text) || most < 260 || most > 1<<20 || len(text) > 1<<16 {
			return
		}
		shown, _ := resultOf(t, &conversation.ToolCall{Failed: true, ErrorText: text}, most)
		if len(shown) > most || !utf8.ValidString(shown) {
			t.Fatalf("got %d of %d bytes, want at most %d: %q", len(shown), len(text), most, shown)
		}
		next := regexp.MustCompile(`; read on from (\d+)\]\n`)
		var read strings.Builder
		for from := 0; ; {
			piece, ok := prompt.Window{Text: text, Size: len(text)}.Piece(from, "", most)
			where, part, _ := strings.Cut(piece, "\n")
			if !ok || len(piece) > most {
				t.Fatalf("from %d: got ok %v, %d bytes", from, ok, len(piece))
			}
			read.WriteString(part)
			found := next.FindStringSubmatch(where + "\n")
			if found == nil {
				break
			}
			on, err := strconv.Atoi(found[1])
			if err != nil || on <= from {
				t.Fatal(fmt.Errorf("from %d to %d: %w", from, on, err))
			}
			from = on
		}
		if read.String() != text {
			t.Fatalf("got %d bytes in total, want %d", read.Len(), len(text))
		}
	})
}
