package actors_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// TestEmptyReplies asks again, once, after a reply without an answer, and completes with a
// message to people if the next reply has none either.
func TestEmptyReplies(t *testing.T) {
	empty := func(stop providers.StopReason, text, reasoning string) script {
		return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
			a.Reasoning(reasoning, "")
			a.Text(text)
			a.Finish(providers.Done{StopReason: stop})
			return nil
		}
	}
	none := empty(providers.StopStop, "", "")
	for _, tt := range []struct {
		name  string
		model script
		asked int
		texts []string
		told  bool
	}{
		{"once", inTurn(none, tells("Hi")), 2, []string{"go", "Hi"}, false},
		{"once, with reasoning", inTurn(empty(providers.StopStop, "", "hm"), tells("Hi")), 2, []string{"go", "Hi"}, false},
		{"once, with spaces", inTurn(empty(providers.StopStop, " \n", ""), tells("Hi")), 2, []string{"go", "Hi"}, false},
		{"twice", inTurn(none, none, tells("Hi")), 2, []string{"go"}, true},
		{"cut", inTurn(empty(providers.StopLength, "", ""), tells("Hi")), 1, []string{"go"}, false},
		{"filtered", inTurn(empty(providers.StopContentFilter, "", ""), tells("Hi")), 1, []string{"go"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				c := &cast{models: map[string]script{"model": tt.model}}
				n := l.run(part{opts: agents(chatAgent()), cast: c})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				if got := len(c.requests("model")); got != tt.asked {
					t.Errorf("%s: the model was asked %d times, want %d", tt.name, got, tt.asked)
				}
				var texts []string
				told := false
				for _, m := range n.snapshot(chat("c")).Messages {
					for _, p := range m.Parts {
						switch {
						case m.Purpose == conversation.PurposeAdvisory:
							told = told || strings.Contains(*p.Text, "without an answer")
						case p.Text != nil && p.Type == string(conversation.PartText):
							texts = append(texts, *p.Text)
						}
					}
				}
				if diff := cmp.Diff(tt.texts, texts); diff != "" || told != tt.told {
					t.Errorf("%s: got a message to people: %v, want %v; texts (-want +got):\n%s", tt.name, told, tt.told, diff)
				}
			})
		})
	}
}
