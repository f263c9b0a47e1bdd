package actors_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// TestEmptyReplies covers replies with neither text nor a tool call: the model is called once more,
// then the submission completes with a diagnostic. Usage counts both calls.
func TestEmptyReplies(t *testing.T) {
	empty := func(stop providers.StopReason, text, reasoning string) script {
		return func(_ context.Context, _ providers.Request, a *providers.Assembler) error {
			a.Reasoning(reasoning, "")
			a.Text(text)
			a.Finish(providers.Done{StopReason: stop, Usage: providers.Usage{Input: 10, Output: 2, Total: 12}})
			return nil
		}
	}
	none := empty(providers.StopStop, "", "")
	for _, tt := range []struct {
		name       string
		model      script
		asked      int
		texts      []string
		diagnostic string // the public diagnostic, "" for none
	}{
		{"once", inTurn(none, replies("Hi")), 2, []string{"go", "Hi"}, ""},
		{"once, with reasoning", inTurn(empty(providers.StopStop, "", "hm"), replies("Hi")), 2, []string{"go", "Hi"}, ""},
		{"once, with spaces", inTurn(empty(providers.StopStop, " \n", ""), replies("Hi")), 2, []string{"go", " \n", "Hi"}, ""},
		{"twice", inTurn(none, none, replies("Hi")), 2, []string{"go"}, "model ended its reply without an answer."},
		{"before a call", inTurn(none, toolCalls("look"), replies("Hi")), 3, []string{"go", "Hi"}, ""},
		{"after a call", inTurn(toolCalls("look"), none, replies("Hi")), 3, []string{"go", "Hi"}, ""},
		{"twice, after a call", inTurn(toolCalls("look"), none), 3, []string{"go"}, "model ended its reply without an answer."},
		{"cut", inTurn(empty(providers.StopLength, "", "hm")), 1, []string{"go"}, "model reached its length limit before its answer began."},
		{"filtered", inTurn(empty(providers.StopContentFilter, "", "")), 1, []string{"go"}, "The answer of test/model was withheld by its vendor."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				look := agent.NewTool("look", "Looks.", func(context.Context, struct{}) (string, error) { return "seen", nil }, nil)
				c := &vendor{models: map[string]script{"model": tt.model}}
				n := l.run(part{opts: agents(chatAgent(look)), vendor: c})
				n.admit(chat("c"), "1", "go")
				l.completes(chat("c"), 1)
				requests := c.requests("model")
				if len(requests) != tt.asked {
					t.Errorf("%s: got %d model calls, want %d", tt.name, len(requests), tt.asked)
				}
				var texts []string
				shownText := ""
				for _, m := range n.snapshot(chat("c")).Messages {
					for _, p := range m.Parts {
						switch {
						case m.Display == conversation.DisplayDiagnostic:
							shownText += *p.Text
						case m.Display == conversation.DisplayVisible && p.Type == string(conversation.PartText):
							texts = append(texts, *p.Text)
						}
					}
				}
				if diff := cmp.Diff(tt.texts, texts); diff != "" || !strings.HasSuffix(shownText, tt.diagnostic) || (shownText == "") != (tt.diagnostic == "") {
					t.Errorf("%s: got diagnostic %q, want %q; texts (-want +got):\n%s", tt.name, shownText, tt.diagnostic, diff)
				}
				if last := strings.Join(requests[len(requests)-1].seen(), "\n"); tt.asked == 2 && !strings.HasSuffix(last, "Your reply was empty: it had neither text nor a tool call. Reply now, or call a tool.\n</advisory>") {
					t.Errorf("%s: the second request ends with %q, want a note about the empty reply", tt.name, last)
				}
			})
		})
	}
}
