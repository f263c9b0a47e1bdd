package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// worker is a conversation of the agent that the trees dispatch to.
func worker(name string) conversation.Address { return conversation.Address{Agent: "worker", ID: name} }

// treeAgents returns an agent whose tool dispatches to the workers that the message names, and workers
// that do the same. A rejected dispatch ends the call with the error, which refused gets.
func treeAgents(limits agent.Limits, refused func(error)) []*agent.Agent {
	send := agent.NewTool("send", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
		call, _ := agent.CallFrom(ctx)
		for i := range 4 {
			if _, err := agent.Dispatch(ctx, worker(fmt.Sprintf("%s.%d", call.Address.ID, i)), agent.Text("go")); err != nil {
				refused(err)
				return "", err
			}
		}
		return "sent", nil
	}, nil)
	root := chatAgent(send)
	root.Limits = limits
	return []*agent.Agent{root, {Name: "worker", Model: spec, Tools: []agent.Tool{send}}}
}

// sends answers each message with a call of send, and its result with a word.
func sends() *vendor {
	return onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		if seen := shown(req); strings.HasPrefix(seen[len(seen)-1], "user:") {
			return toolCalls("send")(ctx, req, a)
		}
		return replies("done")(ctx, req, a)
	})
}

// workers returns the addresses to which a tree with fan-out 4 dispatches, to a depth.
func workers(id string, depth int) (all []conversation.Address) {
	for i := range 4 {
		child := fmt.Sprintf("%s.%d", id, i)
		all = append(all, worker(child))
		if depth > 1 {
			all = append(all, workers(child, depth-1)...)
		}
	}
	return all
}

// TestTreeBudget: a tree with fan-out 4 admits as many messages as the root's agent allows, and the
// next is rejected with an error that names the option.
func TestTreeBudget(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var mu sync.Mutex
		var refusals []error
		n := l.run(part{opts: agents(treeAgents(agent.Limits{TreeSubmissions: 10}, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			refusals = append(refusals, err)
		})...), vendor: sends()})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		// A tree may be deeper than it is wide, so its members come from the log of the root.
		count := func() (settled int) {
			for _, joined := range only[*conversation.TreeCounted](l.records(chat("c"))) {
				settled += len(only[*conversation.SubmissionSettled](l.records(joined.Member)))
			}
			return settled
		}
		l.until("all members", func() bool { return count() == 10 })
		tree := only[*conversation.TreeCounted](l.records(chat("c")))
		if len(tree) != 10 || tree[9].Submissions != 10 || tree[9].MaxSubmissions != 10 {
			t.Errorf("got %d members at the root, want 10 of 10", len(tree))
		}
		mu.Lock()
		defer mu.Unlock()
		var limit *agent.DispatchLimitError
		for _, err := range refusals {
			if !errors.As(err, &limit) || limit.Option != "TreeSubmissions" || limit.Limit != 10 || limit.Agent != "chat" {
				t.Errorf("got rejection %v, want the limit TreeSubmissions of chat", err)
			}
		}
		if len(refusals) == 0 {
			t.Error("got no rejected dispatch")
		}
	})
}

// TestTreeDollars: the cost of members counts against the budget of the root's agent, and ends a
// member that would continue.
func TestTreeDollars(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		send := agent.NewTool("send", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
			_, err := agent.Dispatch(ctx, worker("w"), agent.Text("go"))
			return "sent", err
		}, nil)
		root := chatAgent(send)
		root.Limits.TreeDollars = 10
		paid := providers.Usage{Input: 1_000_000} // $4
		rootSettled := make(chan struct{})        // The root's own last turn must finish before the budget is spent.
		opts := agents(root, &agent.Agent{Name: "worker", Model: spec, Tools: []agent.Tool{returning("note", "noted")}})
		n := l.run(part{opts: opts, price: 4, vendor: onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			seen := shown(req)
			switch {
			case req.Tools[0].Name == "note":
				<-rootSettled
				return toolCallsAt(paid, "note")(ctx, req, a)
			case seen[len(seen)-1] == "user: go":
				return toolCalls("send")(ctx, req, a)
			}
			return replies("done")(ctx, req, a)
		})})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		close(rootSettled)
		settled := l.settles(worker("w"), 1)[0]
		if settled.Error == nil || settled.Error.Type != conversation.CodeLimitReached || settled.Error.Meta["bound"] != "treeDollars" || settled.Error.Meta["limit"] != 10.0 {
			t.Errorf("got member's error %+v, want the bound treeDollars of 10", settled.Error)
		}
		if _, err := n.rt.Admit(t.Context(), conversation.Admission{Address: chat("c"), Key: "2", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "hello"}}); err != nil {
			t.Fatal(err)
		}
		l.completes(chat("c"), 2) // a tree of its own
	})
}

// TestPricedOnly: with PricedOnly a model without a price is not called.
func TestPricedOnly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		only  bool
		price float64
		calls int
	}{{"no price", true, 0, 0}, {"a price", true, 4, 1}, {"no price, as by default", false, 0, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				a := chatAgent()
				a.Limits.PricedOnly = tt.only
				var calls atomic.Int64
				n := l.run(part{opts: agents(a), price: tt.price, vendor: onlyModel(func(ctx context.Context, req providers.Request, as *providers.Assembler) error {
					calls.Add(1)
					return replies("done")(ctx, req, as)
				})})
				n.admit(chat("c"), "1", "go")
				settled := l.settles(chat("c"), 1)[0]
				if got := int(calls.Load()); got != tt.calls {
					t.Errorf("got %d calls, want %d", got, tt.calls)
				}
				if tt.calls == 0 && (settled.Error == nil || settled.Error.Type != conversation.CodeModelFailed || !strings.Contains(settled.Error.Message, "has no price")) {
					t.Errorf("got error %+v, want model_failed and the remedy", settled.Error)
				}
			})
		})
	}
}

// TestAbortTree aborts all submissions caused by a message, running, suspended or queued, and no
// others; later dispatches are rejected.
func TestAbortTree(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var mu sync.Mutex
		refused := map[string]error{}
		release := make(chan struct{})
		send := agent.NewTool("send", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
			call, _ := agent.CallFrom(ctx)
			for i := range 4 {
				if _, err := agent.Dispatch(ctx, worker(fmt.Sprintf("%s.%d", call.Address.ID, i)), agent.Text("hold")); err != nil {
					return "", err
				}
			}
			return "sent", nil
		}, nil)
		hold := agent.NewTool("hold", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
			call, _ := agent.CallFrom(ctx)
			if strings.HasSuffix(call.Address.ID, ".1") { // suspended
				_, err := agent.Wait[string](ctx, "approval", nil)
				return "", err
			}
			<-ctx.Done()
			<-release
			_, err := agent.Dispatch(context.WithoutCancel(ctx), worker("late"), agent.Text("late"))
			mu.Lock()
			defer mu.Unlock()
			refused[call.Address.ID] = err
			return "", ctx.Err()
		}, &agent.ToolOptions{Durable: true})
		opts := agents(chatAgent(send), &agent.Agent{Name: "worker", Model: spec, Tools: []agent.Tool{hold}})
		n := l.run(part{opts: opts, vendor: onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			switch seen := shown(req); seen[len(seen)-1] {
			case "user: go":
				return toolCalls("send")(ctx, req, a)
			case "user: hold":
				return toolCalls("hold")(ctx, req, a)
			}
			return replies("done")(ctx, req, a)
		})})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1) // the root itself is settled
		l.until("all members at work", func() bool {
			for _, at := range workers("c", 1) {
				if len(only[*conversation.ToolCalled](l.records(at))) == 0 {
					return false
				}
			}
			return len(only[*conversation.Suspended](l.records(worker("c.1")))) == 1
		})
		n.admit(worker("c.0"), "mine", "hello") // another sender's, behind a member
		done, err := n.rt.AbortTree(t.Context(), chat("c"))
		if want := (conversation.TreeAborted{Conversations: 4}); err != nil || !cmp.Equal(want, done) {
			t.Errorf("abort: got %+v, %v, want %+v", done, err, want)
		}
		close(release)
		l.completesAll(t, worker("c.0"), conversation.OutcomeAborted, conversation.OutcomeCompleted)
		for _, at := range workers("c", 1)[1:] {
			l.completesAll(t, at, conversation.OutcomeAborted)
		}
		l.until("the late dispatches", func() bool { mu.Lock(); defer mu.Unlock(); return len(refused) == 3 })
		for id, err := range refused {
			if !errors.Is(err, agent.ErrTreeAborted) {
				t.Errorf("dispatch of %s after the abort: got %v, want ErrTreeAborted", id, err)
			}
		}
		if got := admitted(l, worker("late")); len(got) != 0 {
			t.Errorf("after the abort: got admissions %q, want none", got)
		}
		if done, err := n.rt.AbortTree(t.Context(), chat("c")); err != nil || done.Aborted || done.Conversations != 0 {
			t.Errorf("repeated abort: got %+v, %v, want nothing to abort", done, err)
		}
		n.admit(chat("c"), "2", "go") // begins another tree
		l.completes(chat("c"), 2)
	})
}

// completesAll waits until a conversation has settled all submissions, and compares the outcomes.
func (l *loop) completesAll(t *testing.T, at conversation.Address, want ...conversation.Outcome) {
	t.Helper()
	var got []conversation.Outcome
	for _, s := range l.settles(at, len(want)) {
		got = append(got, s.Outcome)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got outcomes %v, want %v", at.ID, got, want)
	}
}

// TestLateMember: a submission admitted after the abort of its tree runs nothing.
func TestLateMember(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		c := sends()
		n := l.run(part{opts: agents(treeAgents(agent.Limits{}, func(error) {})...), vendor: c})
		n.admit(chat("c"), "1", "hello")
		l.completes(chat("c"), 1)
		root := only[*conversation.SubmissionAdmitted](l.records(chat("c")))[0].Submission
		if _, err := n.rt.AbortTree(t.Context(), chat("c")); err != nil {
			t.Fatal(err)
		}
		before := len(c.requests("model"))
		tree := &conversation.TreeRef{Root: chat("c"), Submission: root}
		_, err := n.rt.Admit(t.Context(), conversation.Admission{
			Address: worker("w"), Key: "k", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: "go"}, Tree: tree,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.completesAll(t, worker("w"), conversation.OutcomeAborted)
		if after := len(c.requests("model")); after != before {
			t.Errorf("got %d model calls, want 0", after-before)
		}
	})
}
