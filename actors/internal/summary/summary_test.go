package summary_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/summary"
	"github.com/parleyrun/parley/conversation"
)

// exchanges builds exchanges: each word is a delivery of that many bytes, followed by the sizes of its
// turns.
func exchanges(lines ...string) []conversation.Exchange {
	var out []conversation.Exchange
	turn := 0
	for i, line := range lines {
		var sizes []int
		for _, w := range strings.Fields(line) {
			var n int
			fmt.Sscan(w, &n)
			sizes = append(sizes, n)
		}
		x := conversation.Exchange{Submission: conversation.SubmissionID(fmt.Sprint("sub_", i))}
		x.Delivery = conversation.Delivery{Kind: conversation.KindUser, Body: strings.Repeat("u", sizes[0])}
		for _, n := range sizes[1:] {
			turn++
			x.Turns = append(x.Turns, conversation.Turn{
				ID: conversation.TurnID(fmt.Sprint("turn_", turn)), Completed: true,
				Parts: []conversation.TurnPart{{Kind: conversation.PartText, Text: strings.Repeat("a", n)}},
			})
		}
		out = append(out, x)
	}
	return out
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		name  string
		list  []conversation.Exchange
		first conversation.TurnID
		keep  int
		want  summary.Point
		ok    bool
	}{
		{"nothing", nil, "", 10, summary.Point{}, false},
		{"all fits", exchanges("40 40", "40 40"), "", 1000, summary.Point{}, false},
		{"whole exchanges", exchanges("40 40", "40 40", "40 40"), "", 20, summary.Point{First: 2}, true},
		{"within an exchange", exchanges("40 40", "40 40 40 40"), "", 20, summary.Point{First: 1, Turn: "turn_3"}, true},
		{"the last is kept, however long", exchanges("40 40", "40 4000"), "", 1, summary.Point{First: 1, Turn: "turn_2"}, true},
		{"a delivery alone is not left out", exchanges("40 40"), "", 1, summary.Point{}, false},
		{"a delivery and a turn are", exchanges("40 40 40"), "", 1, summary.Point{First: 0, Turn: "turn_2"}, true},
		{"nothing after the earlier cut", exchanges("40 40 40"), "turn_2", 1, summary.Point{}, false},
		{"turns after the earlier cut", exchanges("40 40 40 40"), "turn_2", 1, summary.Point{First: 0, Turn: "turn_3"}, true},
		{"a message without an answer", exchanges("40 40", "40"), "", 1, summary.Point{First: 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := summary.Plan(tt.list, tt.first, tt.keep)
			if got != tt.want || ok != tt.ok {
				t.Errorf("got %+v, %t, want %+v, %t", got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestText(t *testing.T) {
	list := exchanges("1 1", "1 1 1")
	list[0].Delivery = conversation.Delivery{
		Kind: conversation.KindUser, Body: "Look at this", Attachments: []conversation.Attachment{{}, {}},
	}
	list[0].Turns[0].Parts = []conversation.TurnPart{
		{Kind: conversation.PartReasoning, Text: "hm"}, {Kind: conversation.PartText, Text: "I see."},
		{Tool: &conversation.ToolCall{Name: "weather", Input: json.RawMessage(`{"city":"Bern"}`), Settled: true, Output: json.RawMessage(`"sun"`)}},
		{Tool: &conversation.ToolCall{Name: "label", Input: json.RawMessage(`{}`), Settled: true, Failed: true, ErrorText: "no such label"}},
		{Tool: &conversation.ToolCall{Name: "read", Input: json.RawMessage(`{}`), Settled: true, Output: json.RawMessage(`"` + strings.Repeat("é", 2000) + `"`)}},
	}
	list[1].Delivery = conversation.Delivery{Kind: conversation.KindSignal, Type: "build.done", Body: "It broke."}
	got := summary.Text(list, "", summary.Point{First: 1, Turn: "turn_3"}, 1<<20)
	want := strings.Join([]string{
		"User: Look at this [2 images]", "Assistant: I see.", `Call weather: {"city":"Bern"}`, `Outcome: "sun"`,
		"Call label: {}", "Failed: no such label",
		"Call read: {}", `Outcome: "` + strings.Repeat("é", 995) + " [2011 bytes omitted]",
		"Signal build.done: It broke.", "Assistant: a",
	}, "\n")
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := summary.Text(list, "turn_1", summary.Point{First: 1}, 1<<20); !strings.HasPrefix(got, "Assistant: I see.") || strings.Contains(got, "Signal") {
		t.Errorf("from a turn on: got %q", got)
	}
	short := summary.Text(list, "", summary.Point{First: 1, Turn: "turn_3"}, 70)
	if len(short) > 70 || !strings.HasPrefix(short, "[earlier lines omitted]\n") || !strings.HasSuffix(short, "Assistant: a") {
		t.Errorf("shortened: got %q", short)
	}
}

// TestPlansFit checks repeated cuts of random conversations: nothing is lost or repeated, the text
// fits its bound, and the cuts end.
func TestPlansFit(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var lines []string
		for range 1 + r.IntN(6) {
			line := fmt.Sprint(1 + r.IntN(200))
			for range r.IntN(5) {
				line += fmt.Sprint(" ", 1+r.IntN(400))
			}
			lines = append(lines, line)
		}
		list, first := exchanges(lines...), conversation.TurnID("")
		whole := summary.Tokens(list, first)
		for n := 0; ; n++ {
			cut, ok := summary.Plan(list, first, r.IntN(100))
			if !ok {
				if cut, ok = summary.Plan(list, first, 0); !ok {
					break
				}
			}
			if n > 100 {
				t.Fatalf("seed %d: cuts do not end", seed)
			}
			limit := 40 + r.IntN(500)
			if text := summary.Text(list, first, cut, limit); len(text) > limit || !utf8.ValidString(text) || text == "" {
				t.Fatalf("seed %d: got %d bytes, want at most %d: %q", seed, len(text), limit, text)
			}
			list, first = list[cut.First:], cut.Turn
			if left := summary.Tokens(list, first); left > whole {
				t.Fatalf("seed %d: got %d tokens before a cut, %d after", seed, whole, left)
			} else {
				whole = left
			}
		}
	}
}
