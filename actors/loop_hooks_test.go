package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// TestDeliveryStarted runs the hook once per delivery, not again after a later crash, but again after
// a crash within it.
func TestDeliveryStarted(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k, within, answering := &work{}, make(chan struct{}), make(chan struct{})
		gate := firstTime(within)
		a := chatAgent(returning("look", "fog"))
		a.Hooks.DeliveryStarted = func(ctx context.Context, turn *agent.Turn) error {
			k.did(fmt.Sprint(turn.Delivery.Body, " ", turn.Attempt))
			return gate(ctx)
		}
		c := onlyModel(inTurn(hangs("Well", answering), toolCalls("look"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "one")
		await(t, within, "the hook")
		n.crash()
		n = l.run(part{opts: agents(a), vendor: c})
		await(t, answering, "the model")
		l.until("the end of the hook", func() bool { return len(only[*conversation.HookDone](l.records(chat("c")))) == 1 })
		n.crash()
		n = l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		n.admit(chat("c"), "2", "two")
		l.completes(chat("c"), 2)
		if diff := cmp.Diff(map[string]int{"one 1": 1, "one 2": 1, "two 1": 1}, k.counts()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestDeliveryStartedFails: the model is never called, and callers do not get the reason.
func TestDeliveryStartedFails(t *testing.T) {
	for name, hook := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("secret of the author") },
		"panic": func(context.Context) error { panic("secret of the author") },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("secret of the author")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				a := chatAgent()
				first := true
				a.Hooks.DeliveryStarted = func(ctx context.Context, _ *agent.Turn) error {
					if !first {
						return nil
					}
					first = false
					return hook(ctx)
				}
				c := onlyModel(replies("done"))
				n := l.run(part{opts: agents(a), vendor: c})
				n.admit(chat("c"), "1", "one")
				s := l.settles(chat("c"), 1)[0]
				want := &conversation.SettlementError{Type: conversation.CodeInternal, Message: "The agent could not start on the message."}
				if diff := cmp.Diff(want, s.Error); diff != "" || s.Outcome != conversation.OutcomeFailed {
					t.Errorf("outcome %s (-want +got):\n%s", s.Outcome, diff)
				}
				if got := len(c.requests("")); got != 0 {
					t.Errorf("got %d model calls", got)
				}
				lacks(t, "the log", l.lines(chat("c")), "secret")
				lacks(t, "the public view", n.public(chat("c")), "secret")
				wants(t, "the log", n.log.String(), "hook=DeliveryStarted")
				n.admit(chat("c"), "2", "two")
				l.completes(chat("c"), 2)
			})
		})
	}
}

// TestWouldStop continues the model with a note that only it gets, and the author gets the end of the
// response once.
func TestWouldStop(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var stops, ends []string
		a := chatAgent(agent.NewTool("last", "Ends.", func(context.Context, struct{}) (agent.Result, error) {
			return agent.Result{Terminate: true}, nil
		}, nil))
		a.Hooks = agent.Hooks{
			WouldStop: func(_ context.Context, r *agent.Response) (string, error) {
				stops = append(stops, fmt.Sprintf("%d %q", r.Continuations, r.Text))
				return []string{"Check <it>.", "Once more.", "  \n"}[r.Continuations], nil
			},
			ResponseFinished: func(_ context.Context, r *agent.Response) (map[string]any, error) {
				ends = append(ends, fmt.Sprintf("%d %q %d", r.Continuations, r.Text, r.Usage.Total))
				return map[string]any{"ok": true}, nil
			},
		}
		c := onlyModel(inTurn(replies("One."), toolCalls("last"), replies("Three.")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if diff := cmp.Diff([]string{`0 "One."`, `1 "One."`, `2 "One.\n\nThree."`}, stops); diff != "" {
			t.Errorf("WouldStop (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{`2 "One.\n\nThree." 39`}, ends); diff != "" {
			t.Errorf("ResponseFinished (-want +got):\n%s", diff)
		}
		note := "user: <advisory>\nCheck &lt;it&gt;.\n</advisory>"
		if diff := cmp.Diff([]string{"user: go", "assistant: One.", note}, c.requests("model")[1].seen()); diff != "" {
			t.Errorf("the second request (-want +got):\n%s", diff)
		}
		seen := c.last(t, "model")
		wants(t, "the third request", seen[len(seen)-1], "Once more.")
		for _, m := range n.snapshot(chat("c")).Messages {
			if m.Display == conversation.DisplayVisible && m.Role != conversation.RoleUser && m.ID != n.response(chat("c")).ID {
				t.Errorf("got public message %+v", m)
			}
		}
		checkHidden(t, n, "Check", "Once more")
	})
}

// checkHidden fails if a public message contains one of the texts.
func checkHidden(t *testing.T, n *actorNode, texts ...string) {
	t.Helper()
	for _, m := range n.snapshot(chat("c")).Messages {
		for _, p := range m.Parts {
			for _, text := range texts {
				if p.Text != nil && strings.Contains(*p.Text, text) && m.Display != conversation.DisplayHidden {
					t.Errorf("got %q in %+v", text, m)
				}
			}
		}
	}
}

// TestWouldStopLimit: 32 continuations are allowed, across a crash, and the next fails.
func TestWouldStopLimit(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		stops, ended, again := 0, false, make(chan struct{})
		a := chatAgent()
		a.Hooks = agent.Hooks{
			WouldStop: func(context.Context, *agent.Response) (string, error) {
				stops++
				return "More.", nil
			},
			ResponseFinished: func(context.Context, *agent.Response) (map[string]any, error) {
				ended = true
				return nil, nil
			},
		}
		var scripts []script
		for range 10 {
			scripts = append(scripts, replies("text"))
		}
		c := onlyModel(inTurn(append(scripts, hangs("half", again), replies("text"))...))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, again, "the eleventh call")
		l.until("the tenth time", func() bool { return len(only[*conversation.HookDone](l.records(chat("c")))) == 10 })
		n.crash()
		l.run(part{opts: agents(a), vendor: c})
		s := l.settles(chat("c"), 1)[0]
		want := &conversation.SettlementError{
			Type: conversation.CodeModelFailed, Message: "The reply was continued as often as allowed and did not end.",
			Meta: map[string]any{"reason": "continued", "times": 32.0},
		}
		if diff := cmp.Diff(want, s.Error); diff != "" {
			t.Errorf("outcome %s (-want +got):\n%s", s.Outcome, diff)
		}
		if stops != agent.MaxContinuations+1 || ended {
			t.Errorf("got %d calls of the hook, want 33; ends: %v", stops, ended)
		}
		if got := len(c.requests("model")); got != 34 { // one of them was lost with its node
			t.Errorf("got %d model calls, want 34", got)
		}
	})
}

// TestSettledRunsOnce: the hook runs once after each settlement, for every outcome, when it is
// readable.
func TestSettledRunsOnce(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var mu sync.Mutex
		var settlements []string
		begun := make(chan struct{})
		a := chatAgent(returning("look", "fog"))
		a.Hooks.Settled = func(_ context.Context, s *agent.Settlement) error {
			durable := 0
			for _, r := range only[*conversation.SubmissionSettled](l.records(chat("c"))) {
				if r.Submission == s.Submission {
					durable++
				}
			}
			reason := ""
			if s.Error != nil {
				reason = string(s.Error.Type)
			}
			mu.Lock()
			defer mu.Unlock()
			settlements = append(settlements, fmt.Sprintf("%s %s %s %q %d durable=%d attempts=%d", s.Delivery.Body, s.Outcome, reason, s.Text, s.Usage.Total, durable, s.Attempts))
			return errors.New("nobody minds")
		}
		c := onlyModel(inTurn(toolCalls("look"), replies("Fog."), fails(&providers.Error{Kind: providers.KindQuota}), hangs("Half", begun)))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "one")
		l.completes(chat("c"), 1)
		n.admit(chat("c"), "2", "two")
		l.settles(chat("c"), 2)
		n.admit(chat("c"), "3", "three")
		await(t, begun, "the model")
		l.until("the text", func() bool { return strings.Contains(l.lines(chat("c")), "Half") })
		n.admit(chat("c"), "4", "four")
		if _, err := n.rt.Abort(t.Context(), chat("c")); err != nil {
			t.Fatal(err)
		}
		l.settles(chat("c"), 4)
		time.Sleep(time.Hour)
		synctest.Wait()
		slices.Sort(settlements[2:]) // both settle at once
		want := []string{
			`one completed  "Fog." 27 durable=1 attempts=1`,
			`two failed model_failed "" 0 durable=1 attempts=1`,
			`four aborted submission_aborted "" 0 durable=1 attempts=0`,
			`three aborted submission_aborted "Half" 0 durable=1 attempts=1`,
		}
		if diff := cmp.Diff(want, settlements); diff != "" {
			t.Errorf("settled hooks (-want +got):\n%s", diff)
		}
	})
}

// TestSettledDoesNotRunTwice kills a node whose settlement is durable but unconfirmed: the hook does
// not run.
func TestSettledDoesNotRunTwice(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k := &work{}
		a := chatAgent()
		a.Hooks.Settled = func(context.Context, *agent.Settlement) error {
			k.did("settled")
			return nil
		}
		c := onlyModel(replies("done"))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "one")
		l.completes(chat("c"), 1)
		if diff := cmp.Diff(map[string]int{"settled": 1}, k.counts()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		n.crash()
		n = l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "one") // a known key: it only opens the conversation
		time.Sleep(time.Hour)
		if diff := cmp.Diff(map[string]int{"settled": 1}, k.counts()); diff != "" {
			t.Errorf("calls after a restart (-want +got):\n%s", diff)
		}
	})
}
