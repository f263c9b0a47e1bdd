package actors_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/agent"
)

// refunds is a tool with a given name that pays, and then waits for a receipt.
func refunds(k *work, name string, durable bool) agent.Tool {
	return agent.NewTool(name, "Pays.", func(ctx context.Context, _ struct {
		Order string `json:"order"`
	}) (string, error) {
		k.did(name)
		if !durable {
			return "paid again", nil
		}
		if _, err := agent.Step(ctx, "pay", func(context.Context) (bool, error) {
			k.did("pay")
			return true, nil
		}); err != nil {
			return "", err
		}
		return agent.Wait[string](ctx, "receipt", &agent.WaitOptions{Timeout: 4 * 24 * time.Hour})
	}, &agent.ToolOptions{Durable: durable})
}

// TestToolRemovedWhileCallWaits replaces a program while a durable call waits for a signal. A call
// that cannot continue ends as unknown, with a warning that lists the steps and the signal. The model
// is not told to call it again. A renamed tool continues.
func TestToolRemovedWhileCallWaits(t *testing.T) {
	for _, c := range []struct {
		name string
		next func(k *work, a *agent.Agent)
		lost string // reason why the call cannot continue
	}{
		{"renamed, with its old name", func(k *work, a *agent.Agent) {
			a.Tools, a.Renamed = []agent.Tool{refunds(k, "refund_order", true)}, map[string]string{"refund": "refund_order"}
		}, ""},
		{"renamed twice", func(k *work, a *agent.Agent) {
			a.Tools, a.Renamed = []agent.Tool{refunds(k, "refund_order", true)}, map[string]string{"refund": "repay", "repay": "refund_order"}
		}, ""},
		{"renamed", func(k *work, a *agent.Agent) { a.Tools = []agent.Tool{refunds(k, "refund_order", true)} }, "tool not found"},
		{"without tools", func(_ *work, a *agent.Agent) { a.Tools = nil }, "tool not found"},
		{"left out by Prepare", func(k *work, a *agent.Agent) {
			a.Tools = []agent.Tool{refunds(k, "refund", true)}
			a.Prepare = func(_ context.Context, _ *agent.Turn, s *agent.Setup) error {
				s.Tools = nil
				return nil
			}
		}, "tool not found"},
		{"no longer durable", func(k *work, a *agent.Agent) { a.Tools = []agent.Tool{refunds(k, "refund", false)} }, "no longer durable"},
		{"with another input", func(k *work, a *agent.Agent) {
			a.Tools = []agent.Tool{agent.NewTool("refund", "Pays.", func(context.Context, struct {
				Order int `json:"order"`
			}) (string, error) {
				k.did("refund")
				return "paid again", nil
			}, &agent.ToolOptions{Durable: true})}
		}, "invalid input for tool refund: /order"},
		{"with a Prepare that fails", func(k *work, a *agent.Agent) {
			a.Tools = []agent.Tool{refunds(k, "refund", true)}
			failed := false
			a.Prepare = func(context.Context, *agent.Turn, *agent.Setup) error {
				if failed {
					return nil
				}
				failed = true
				return errors.New("no database")
			}
		}, "no database"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				k := &work{}
				model := onlyModel(inTurn(toolCalls(`refund {"order":"A1"}`), replies("done")))
				n := l.run(part{opts: agents(chatAgent(refunds(k, "refund", true))), vendor: model})
				n.admit(chat("c"), "1", "go")
				l.waitSuspended(chat("c"), 1)
				n.crash()
				a := chatAgent()
				c.next(k, a)
				next := l.run(part{opts: agents(a), vendor: model})
				if _, err := next.signals("receipt", "s", "number 7"); err != nil {
					t.Fatal(err)
				}
				l.completes(chat("c"), 2)
				seen := strings.Join(model.last(t, "model"), "\n")
				if got := k.counts(); got["pay"] != 1 || c.lost != "" && got["refund"] != 1 {
					t.Errorf("got runs %v, want one of each", got)
				}
				if c.lost == "" {
					wants(t, "the prompt", seen, "p1=number 7")
					return
				}
				wants(t, "the prompt", seen, "p1!The outcome of this call is unknown", "may have taken effect", `["receipt"]`)
				lacks(t, "the prompt", seen, "There is no tool", "It may help to call again", "number 7")
				wants(t, "the log", next.log.String(), `level=WARN msg="durable call not resumed"`, c.lost, "tool=refund", "steps=[pay", "signals=[receipt]", "Agent.Renamed")
			})
		})
	}
}

// TestStateThatDoesNotFit: when a hook reads mismatched state, the log has its conversation and the
// remedy.
func TestStateThatDoesNotFit(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		remembers := func(state agent.StateDefinition, use func(context.Context) error) *agent.Agent {
			a := chatAgent()
			a.State = []agent.StateDefinition{state}
			a.Hooks.DeliveryStarted = func(ctx context.Context, _ *agent.Turn) error { return use(ctx) }
			return a
		}
		before, now := agent.NewState("n", ""), agent.NewState("n", 0)
		n := l.run(part{opts: agents(remembers(before, func(ctx context.Context) error { return before.Set(ctx, "seven") })), vendor: onlyModel(replies("done"))})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		n.crash()
		read := func(ctx context.Context) error {
			_, err := now.Get(ctx)
			return err
		}
		next := l.run(part{opts: agents(remembers(now, read)), vendor: onlyModel(replies("done"))})
		next.admit(chat("c"), "2", "go on")
		l.untilSettled(chat("c"), 2)
		wants(t, "the log", next.log.String(), "level=WARN", "agent=chat", "id=c", "stored value of state n does not fit", "State.Migrating")
	})
}

// TestLogNamesConversation: log lines of a failing conversation have its agent and id, even if this
// process created it.
func TestLogNamesConversation(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		fails := agent.NewTool("fails", "Fails.", func(context.Context, struct{}) (string, error) { return "", errors.New("broken") }, nil)
		n := l.run(part{opts: agents(chatAgent(fails)), vendor: onlyModel(inTurn(toolCalls("fails"), replies("done")))})
		for _, id := range []string{"c", "d"} {
			n.admit(chat(id), "1", "go")
			l.completes(chat(id), 1)
			for line := range strings.Lines(n.log.String()) {
				if strings.Contains(line, `msg="tool failed"`) && (!strings.Contains(line, "agent=chat") || !strings.Contains(line, " id=c") && !strings.Contains(line, " id=d")) {
					t.Errorf("got %s, want agent and id", line)
				}
			}
		}
		wants(t, "the log", n.log.String(), `msg="tool failed"`)
	})
}
