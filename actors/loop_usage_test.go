package actors_test

import (
	"context"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// TestHooksGetUsage: ResponseFinished and Settled get the tokens and the price of all model
// calls, including subagents.
func TestHooksGetUsage(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		type spent struct {
			Usage   conversation.Usage
			Dollars float64
		}
		hooks := make(chan spent, 2)
		paid := providers.Usage{Input: 1_000_000, Total: 1_000_000}
		a := chatAgent()
		a.Subagents = []*agent.Agent{{Name: "helper", Description: "Helps.", Model: "test/child"}}
		a.Hooks.ResponseFinished = func(_ context.Context, r *agent.Response) (map[string]any, error) {
			hooks <- spent{r.Usage, r.Dollars}
			return nil, nil
		}
		a.Hooks.Settled = func(_ context.Context, s *agent.Settlement) error {
			hooks <- spent{s.Usage, s.Dollars}
			return nil
		}
		n := l.run(part{opts: agents(a), price: 4, vendor: &vendor{models: map[string]script{
			"model": inTurn(toolCallsAt(paid, task("helper", "help")), repliesAt("done", paid)),
			"child": repliesAt("helped", paid),
		}}})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		want := spent{conversation.Usage{Input: 3_000_000, Total: 3_000_000}, 12}
		for _, name := range []string{"ResponseFinished", "Settled"} {
			if got := <-hooks; got != want {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
		}
	})
}
