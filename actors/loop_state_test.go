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

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// diary is a list of moments in a conversation's state.
var diary = agent.NewState("diary", []string(nil))

func note(ctx context.Context, place string) error {
	_, err := diary.Update(ctx, func(list []string) []string { return append(list, place) })
	return err
}

// stored returns the written values of a state in order.
func stored(l *loop, at conversation.Address, name string) []string {
	var out []string
	for _, r := range only[*conversation.StateWritten](l.records(at)) {
		if r.Key == name {
			out = append(out, string(r.Value))
		}
	}
	return out
}

// keeper is an agent that notes each hook and tool call in its diary, which is also its instructions.
func keeper(errs *sync.Map) *agent.Agent {
	a := chatAgent(
		agent.NewTool("write", "Writes.", func(ctx context.Context, _ struct{}) (string, error) { return "written", note(ctx, "tool") }, nil),
		agent.NewTool("fail", "Writes and fails.", func(ctx context.Context, _ struct{}) (string, error) {
			return "", errors.Join(note(ctx, "failed tool"), errors.New("no luck"))
		}, nil),
	)
	a.State = []agent.StateDefinition{diary}
	a.Instructions = ""
	a.InstructionsFunc = func(ctx context.Context, _ *agent.Turn) (string, error) {
		list, err := diary.Get(ctx)
		return "So far: " + strings.Join(list, ", "), err
	}
	a.Prepare = func(ctx context.Context, _ *agent.Turn, s *agent.Setup) error {
		errs.Store("Prepare", note(ctx, "Prepare"))
		list, err := diary.Get(ctx)
		s.Instructions += fmt.Sprintf(" (%d)", len(list))
		return err
	}
	a.Hooks = agent.Hooks{
		DeliveryStarted: func(ctx context.Context, _ *agent.Turn) error { return note(ctx, "started") },
		ResponseStarted: func(ctx context.Context, _ *agent.Turn) (map[string]any, error) {
			list, err := diary.Get(ctx)
			return map[string]any{"seen": list}, err
		},
		WouldStop: func(ctx context.Context, r *agent.Response) (string, error) {
			if r.Continuations > 0 {
				return "", nil
			}
			return "Go on.", note(ctx, "stop")
		},
		ResponseFinished: func(ctx context.Context, _ *agent.Response) (map[string]any, error) {
			return nil, note(ctx, "finished")
		},
		Settled: func(ctx context.Context, _ *agent.Settlement) error {
			list, err := diary.Get(ctx)
			errs.Store("Settled", errors.Join(err, note(ctx, "settled")))
			errs.Store("seen", list)
			return nil
		},
	}
	return a
}

// TestStateOfASubmission writes state wherever that is allowed: each write sees the earlier ones, and
// is in the batch of its outcome.
func TestStateOfASubmission(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var errs sync.Map
		c := onlyModel(inTurn(toolCalls("write"), toolCalls("fail"), replies("so"), replies("done")))
		opts := agents(keeper(&errs))
		n := l.run(part{opts: opts, vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		var systems []string
		for _, r := range c.requests("model") {
			systems = append(systems, r.req.System)
		}
		all := []string{"started", "tool", "failed tool", "stop", "finished"}
		want := []string{"So far: started (1)", "So far: started, tool (2)", "So far: started, tool, failed tool (3)", "So far: started, tool, failed tool, stop (4)"}
		if diff := cmp.Diff(want, systems); diff != "" {
			t.Errorf("instructions (-want +got):\n%s", diff)
		}
		wants(t, "metadata", string(n.response(chat("c")).Metadata), `"seen":["started"]`)
		for _, place := range []string{"Prepare", "Settled"} {
			if err, _ := errs.Load(place); !errors.Is(err.(error), agent.ErrReadOnly) {
				t.Errorf("write in %s: got %v, want %v", place, err, agent.ErrReadOnly)
			}
		}
		if seen, _ := errs.Load("seen"); !slices.Equal(seen.([]string), all) {
			t.Errorf("Settled: got %v, want %v", seen, all)
		}
		checkWithState(t, l, "started", batchWith(l, chat("c"), func(h *conversation.HookDone) bool { return h.Hook == conversation.HookDeliveryStarted }))
		checkWithState(t, l, `"tool"`, batchWith(l, chat("c"), func(s *conversation.ToolSettled) bool { return !s.Failed }))
		checkWithState(t, l, `"failed tool"`, batchWith(l, chat("c"), func(s *conversation.ToolSettled) bool { return s.Failed }))
		checkWithState(t, l, `"stop"`, batchWith(l, chat("c"), func(h *conversation.HookDone) bool { return h.Hook == conversation.HookContinued }))
		checkWithState(t, l, `"finished"`, batchWith(l, chat("c"), func(*conversation.SubmissionSettled) bool { return true }))
		lacks(t, "the public view", strings.ReplaceAll(n.public(chat("c")), `"seen":["started"]`, ""), "diary", "finished\"]")

		n.crash()
		n = l.run(part{opts: opts, vendor: c})
		n.admit(chat("c"), "2", "again")
		l.completes(chat("c"), 2)
		if got := c.requests("model")[4].req.System; got != "So far: started, tool, failed tool, stop, finished, started (6)" {
			t.Errorf("after a restart: got instructions %q", got)
		}
	})
}

// checkWithState fails unless the batch writes a value that ends with the note.
func checkWithState(t *testing.T, l *loop, noted string, batch []conversation.Record) {
	t.Helper()
	writes := only[*conversation.StateWritten](batch)
	if len(writes) != 1 || !strings.HasSuffix(strings.ReplaceAll(string(writes[0].Value), `"]`, ""), strings.Trim(noted, `"`)) {
		t.Errorf("batch with %s: got writes %v in\n%s", noted, writes, l.lines(chat("c")))
	}
}

// TestStateOfAnUnfinishedCall kills a node after a write of a call without outcome: the write is lost,
// and the repeated call writes again.
func TestStateOfAnUnfinishedCall(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("durable ", durable), func(t *testing.T) {
			inLoop(t, func(t *testing.T, l *loop) {
				reached := make(chan struct{})
				gate := firstTime(reached)
				write := agent.NewTool("write", "Writes.", func(ctx context.Context, _ struct{}) (string, error) {
					if err := note(ctx, "tool"); err != nil {
						return "", err
					}
					return "written", gate(ctx)
				}, &agent.ToolOptions{Durable: durable})
				a := chatAgent(write, agent.NewTool("read", "Reads.", func(ctx context.Context, _ struct{}) ([]string, error) { return diary.Get(ctx) }, nil))
				a.State = []agent.StateDefinition{diary}
				c := onlyModel(inTurn(toolCalls("write"), toolCalls("read"), replies("done")))
				n := l.run(part{opts: agents(a), vendor: c})
				n.admit(chat("c"), "1", "go")
				await(t, reached, "the write")
				n.crash()
				l.run(part{opts: agents(a), vendor: c})
				l.completes(chat("c"), 1)
				want := "null"
				if durable {
					want = `["tool"]`
				}
				if seen := c.last(t, "model"); seen[len(seen)-1] != "tool: p1="+want {
					t.Errorf("got %q, want %s", seen[len(seen)-1], want)
				}
			})
		})
	}
}

// TestStateOfParallelCalls increments a counter in concurrent calls.
func TestStateOfParallelCalls(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		total := agent.NewState("total", 0)
		var both sync.WaitGroup
		both.Add(10)
		add := agent.NewTool("add", "Adds.", func(ctx context.Context, in struct {
			N int `json:"n"`
		}) (int, error) {
			both.Done()
			both.Wait() // all are running
			return total.Update(ctx, func(v int) int { return v + in.N })
		}, nil)
		a := chatAgent(add)
		a.State = []agent.StateDefinition{total}
		var calls []string
		for i := range 10 {
			calls = append(calls, fmt.Sprintf(`add {"n":%d}`, i+1))
		}
		c := onlyModel(inTurn(toolCalls(calls...), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		if got := stored(l, chat("c"), "total"); len(got) == 0 || got[len(got)-1] != "55" {
			t.Errorf("got %v, want 55 at the end", got)
		}
	})
}

// TestStateIsRefused writes state after the end of a call, of an undeclared name, and in a subagent.
func TestStateIsRefused(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		strange := agent.NewState("strange", "")
		var kept context.Context
		errs := map[string]error{}
		write := agent.NewTool("write", "Writes.", func(ctx context.Context, _ struct{}) (string, error) {
			errs["strange"] = strange.Set(ctx, "x")
			_, errs["strange, read"] = strange.Get(ctx)
			kept = context.WithoutCancel(ctx)
			return "written", note(ctx, "tool")
		}, nil)
		child := &agent.Agent{Name: "child", Description: "A child.", Tools: []agent.Tool{
			agent.NewTool("peek", "Peeks.", func(ctx context.Context, _ struct{}) (string, error) {
				errs["child"] = note(ctx, "child")
				_, errs["child, read"] = diary.Get(ctx)
				return "peeked", nil
			}, nil),
		}}
		a := chatAgent(write)
		a.State, a.Subagents = []agent.StateDefinition{diary}, []*agent.Agent{child}
		c := onlyModel(inTurn(toolCalls("write"), toolCalls(task("child", "peek")), toolCalls("peek"), replies("peeked"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		l.completes(chat("c"), 1)
		errs["late"] = note(kept, "late")
		for desc, err := range errs {
			want := agent.ErrNoState.Error()
			if strings.HasPrefix(desc, "strange") {
				want = "add the state to Agent.State"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", desc, err, want)
			}
		}
		if len(errs) != 5 {
			t.Errorf("got attempts %v", errs)
		}
		if got := len(only[*conversation.StateWritten](l.records(chat("c")))); got != 1 {
			t.Errorf("got %d writes, want 1", got)
		}
	})
}

// TestStateOfUnfinishedSibling: a call that overwrites a concurrent call's write waits for that
// call's outcome, so that a crash between the two loses both writes and duplicates none.
func TestStateOfUnfinishedSibling(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		total := agent.NewState("total", 0)
		reached := make(chan struct{})
		gate := firstTime(reached)
		add := func(ctx context.Context) error {
			_, err := total.Update(ctx, func(v int) int { return v + 1 })
			return err
		}
		slow := agent.NewTool("slow", "Adds, and hangs.", func(ctx context.Context, _ struct{}) (string, error) {
			if err := add(ctx); err != nil {
				return "", err
			}
			return "slow", gate(ctx)
		}, &agent.ToolOptions{Durable: true})
		quick := agent.NewTool("quick", "Adds.", func(ctx context.Context, _ struct{}) (string, error) {
			select {
			case <-reached:
			case <-ctx.Done():
			}
			return "quick", add(ctx)
		}, nil)
		a := chatAgent(slow, quick)
		a.State = []agent.StateDefinition{total}
		c := onlyModel(inTurn(toolCalls("slow", "quick"), replies("done")))
		n := l.run(part{opts: agents(a), vendor: c})
		n.admit(chat("c"), "1", "go")
		await(t, reached, "the slow call")
		synctest.Wait()
		if got := only[*conversation.ToolSettled](l.records(chat("c"))); len(got) > 0 {
			t.Errorf("got an outcome before that of the concurrent call: %+v", got)
		}
		n.crash()
		l.run(part{opts: agents(a), vendor: c})
		l.completes(chat("c"), 1)
		// The quick call's outcome is unknown, and it wrote nothing.
		if diff := cmp.Diff([]string{"1"}, stored(l, chat("c"), "total")); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}
