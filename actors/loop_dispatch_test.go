package actors_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

var other = conversation.Address{Agent: "other", ID: "o"}

// admitted returns the messages of a conversation in order.
func admitted(l *loop, at conversation.Address) []string {
	var out []string
	for _, r := range only[*conversation.SubmissionAdmitted](l.records(at)) {
		out = append(out, r.Delivery.Body)
	}
	return out
}

// TestDispatchFromATool dispatches to another conversation, which runs at once, and to its own, which
// runs after the current submission.
func TestDispatchFromATool(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var mine conversation.Receipt
		send := agent.NewTool("send", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
			call, _ := agent.CallFrom(ctx)
			if _, err := agent.Dispatch(ctx, other, agent.Text("do this")); err != nil {
				return "", err
			}
			l.completes(other, 1) // while this call runs
			var err error
			mine, err = agent.Dispatch(ctx, call.Address, agent.Text("and then"))
			return "sent", err
		}, nil)
		c := onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			if seen := shown(req); seen[len(seen)-1] == "user: go" {
				return toolCalls("send")(ctx, req, a)
			}
			return replies("done")(ctx, req, a)
		})
		n := l.run(part{opts: agents(chatAgent(send), &agent.Agent{Name: "other", Model: spec}), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 2)
		if diff := cmp.Diff([]string{"do this"}, admitted(l, other)); diff != "" {
			t.Errorf("messages of the other conversation (-want +got):\n%s", diff)
		}
		outcomes(t, l.records(chat("c")))
		first := only[*conversation.SubmissionAdmitted](l.records(chat("c")))
		if len(first) != 2 || first[1].Submission != mine.SubmissionID || mine.Deduplicated {
			t.Errorf("got receipt %+v", mine)
		}
		want := []string{"user: go", "assistant: send{}", "tool: p1=sent", "assistant: done", "user: and then"}
		if diff := cmp.Diff(want, c.last(t, "model")); diff != "" {
			t.Errorf("prompt of the second submission (-want +got):\n%s", diff)
		}
	})
}

// TestDispatchOfADurableTool: a call that runs again after a crash sends nothing twice, inside or
// outside a step.
func TestDispatchOfADurableTool(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		k, reached := &work{}, make(chan struct{})
		gate := firstTime(reached)
		var receipts []conversation.Receipt
		send := agent.NewTool("send", "Sends.", func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 2 {
				r, err := agent.Dispatch(ctx, other, agent.Text(fmt.Sprint("message ", i)))
				if err != nil {
					return "", err
				}
				receipts = append(receipts, r)
			}
			_, err := agent.Step(ctx, "step", func(ctx context.Context) (string, error) {
				k.did("step")
				r, err := agent.Dispatch(ctx, other, agent.Text("of the step"))
				return string(r.SubmissionID), err
			})
			if err != nil {
				return "", err
			}
			if err := gate(ctx); err != nil {
				return "", err
			}
			_, err = agent.Dispatch(ctx, other, agent.Text("last"))
			return "sent", err
		}, &agent.ToolOptions{Durable: true})
		c := onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
			if seen := shown(req); seen[len(seen)-1] == "user: go" {
				return toolCalls("send")(ctx, req, a)
			}
			return replies("done")(ctx, req, a)
		})
		opts := agents(chatAgent(send), &agent.Agent{Name: "other", Model: spec})
		n := l.run(part{opts: opts, vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, reached, "the messages")
		n.crash()
		l.run(part{opts: opts, vendor: c})
		l.completes(chat("c"), 1)
		l.completes(other, 4)
		if diff := cmp.Diff([]string{"message 0", "message 1", "of the step", "last"}, admitted(l, other)); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if len(receipts) != 4 || !receipts[2].Deduplicated || receipts[2].SubmissionID != receipts[0].SubmissionID || receipts[3].SubmissionID != receipts[1].SubmissionID {
			t.Errorf("got receipts %+v", receipts)
		}
		if diff := cmp.Diff(map[string]int{"step": 1}, k.counts()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

// TestDispatchFromHooks dispatches from each hook, and from a hook that runs again.
func TestDispatchFromHooks(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		reached := make(chan struct{})
		gate := firstTime(reached)
		send := func(ctx context.Context, text string) error {
			_, err := agent.Dispatch(ctx, other, agent.Text(text))
			return err
		}
		a := chatAgent()
		a.Hooks = agent.Hooks{
			DeliveryStarted: func(ctx context.Context, _ *agent.Turn) error {
				if err := send(ctx, "started"); err != nil {
					return err
				}
				return gate(ctx)
			},
			ResponseStarted: func(ctx context.Context, _ *agent.Turn) (map[string]any, error) {
				return nil, send(ctx, "response")
			},
			WouldStop: func(ctx context.Context, r *agent.Response) (string, error) {
				if r.Continuations == 0 {
					return "More.", send(ctx, "stop 0")
				}
				return "", send(ctx, "stop 1")
			},
			ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) {
				return nil, send(ctx, "finished")
			},
			Settled: func(ctx context.Context, _ *agent.Settlement) error { return send(ctx, "settled") },
		}
		c := onlyModel(replies("done"))
		opts := agents(a, &agent.Agent{Name: "other", Model: spec})
		n := l.run(part{opts: opts, vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, reached, "the first hook")
		n.crash()
		l.run(part{opts: opts, vendor: c})
		l.completes(chat("c"), 1)
		l.completes(other, 6)
		if diff := cmp.Diff([]string{"started", "response", "stop 0", "stop 1", "finished", "settled"}, admitted(l, other)); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestDispatchIsRefused: a tool gets the reason why its dispatch is invalid.
func TestDispatchIsRefused(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		send := agent.NewTool("send", "Sends.", func(ctx context.Context, in struct {
			Agent string `json:"agent"`
		}) (string, error) {
			m := agent.Text("hello")
			m.IfUID = "inst_other"
			_, err := agent.Dispatch(ctx, conversation.Address{Agent: in.Agent, ID: "x"}, m)
			return "sent", err
		}, nil)
		c := onlyModel(inTurn(toolCalls(`send {"agent":"nobody"}`, `send {"agent":"chat"}`), replies("done")))
		n := l.run(part{opts: agents(chatAgent(send)), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		seen := c.last(t, "model")
		wants(t, "the results", seen[len(seen)-1], "p1!dispatch to nobody/x", "p2!dispatch to chat/x", string(conversation.CodeInstanceNotFound))
		if got := admitted(l, chat("x")); len(got) != 0 {
			t.Errorf("got messages %q", got)
		}
	})
}
