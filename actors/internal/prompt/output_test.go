package prompt_test

import (
	"encoding/json"
	"fmt"
	"regexp"
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
			t.Errorf("of a window of %d tokens %d bytes are shown of an output, want %d", window, got, want)
		}
	}
}

// resultOf renders the outcome of a call, shown with so many bytes.
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
			long[:400] + "\n\n[9400 of 10000 bytes are left out here. Read on with the tool read_output: call \"call_1\", from 400.]\n\n" + long[9800:]},
		{"an error", conversation.ToolCall{Failed: true, ErrorText: long}, 856,
			long[:400] + "\n\n[9400 of 10000 bytes are left out here. Read on with the tool read_output: call \"call_1\", from 400.]\n\n" + long[9800:]},
		{"JSON", conversation.ToolCall{Output: json.RawMessage(`[` + string(raw) + `]`)}, 856,
			`["` + long[:398] + "\n\n[9404 of 10004 bytes are left out here. Read on with the tool read_output: call \"call_1\", from 400.]\n\n" + long[9802:] + `"]`},
	} {
		got, messages := resultOf(t, &tt.call, tt.most)
		want := tt.want
		if want == "" {
			want = long
		}
		if got != want {
			t.Errorf("%s: shown as %q", tt.name, got)
		}
		if shortened := prompt.Shortened(messages, tt.most); shortened != (tt.want != "") {
			t.Errorf("%s: shortened: %v", tt.name, shortened)
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
		{"what is found", "needle", 0, 266, "[bytes 800 to 810 of 2006; read on from 810]\n0123456789", true},
		{"found at its place", "needle", 1000, 466, "[bytes 800 to 1010 of 2006; read on from 1010]\n" + text[800:1010], true},
		{"found before", "needle", 1001, 266, "", false},
		{"not there", "x", 0, 266, "", false},
	} {
		if got, ok := prompt.Piece(text, tt.from, tt.find, tt.most); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %q, %v", tt.name, got, ok)
		}
	}
}

// FuzzOutput: whoever reads on where the output says so has read all of it in the end, and
// nothing is longer than it may be, or cut within a character.
func FuzzOutput(f *testing.F) {
	f.Add(strings.Repeat("0123456789", 100), 300)
	f.Add(strings.Repeat("€", 1000), 271)
	f.Add("[1 of 2 bytes are left out here. Read on with the tool read_output: call \"c\", from 3.]", 260)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if !utf8.ValidString(text) || most < 260 || most > 1<<20 || len(text) > 1<<16 {
			return
		}
		shown, _ := resultOf(t, &conversation.ToolCall{Failed: true, ErrorText: text}, most)
		if len(shown) > most || !utf8.ValidString(shown) {
			t.Fatalf("%d bytes are shown of %d, at most %d: %q", len(shown), len(text), most, shown)
		}
		next := regexp.MustCompile(`; read on from (\d+)\]\n`)
		var read strings.Builder
		for from := 0; ; {
			piece, ok := prompt.Piece(text, from, "", most)
			where, part, _ := strings.Cut(piece, "\n")
			if !ok || len(piece) > most {
				t.Fatalf("from %d: %v, %d bytes", from, ok, len(piece))
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
			t.Fatalf("read %d bytes of %d", read.Len(), len(text))
		}
	})
}
