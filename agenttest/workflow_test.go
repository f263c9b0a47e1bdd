package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agenttest"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
)

type day struct {
	Day int `json:"day"`
}

type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *tally) count(desc string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[desc]++
	return c.seen[desc]
}

// step returns a step that counts its runs. It repeats only if the process crashed before the record.
func (c *tally) step(name string) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return c.count(name), nil }
}

// reports returns workflows with every operation of a run: three steps, two concurrent runs, a sleep,
// a signal and a question to an agent.
func reports(c *tally) (report *agent.Workflow[day, string], part *agent.Workflow[string, string]) {
	part = agent.NewWorkflow("part", func(ctx context.Context, name string) (string, error) {
		if _, err := agent.Step(ctx, "write", c.step("part "+name)); err != nil {
			return "", err
		}
		return "part " + name, agent.Sleep(ctx, "dry", time.Minute)
	}, nil)
	report = agent.NewWorkflow("report", func(ctx context.Context, in day) (string, error) {
		if _, err := agent.Step(ctx, "open", c.step("open")); err != nil {
			return "", err
		}
		a, err := part.Start(ctx, "a", "a", nil)
		if err != nil {
			return "", err
		}
		b, err := part.Start(ctx, "b", "b", nil)
		if err != nil {
			return "", err
		}
		if err := agent.Sleep(ctx, "overnight", 9*time.Hour); err != nil {
			return "", err
		}
		if _, err := agent.Step(ctx, "look", c.step("look")); err != nil {
			return "", err
		}
		reply, err := agent.Ask(ctx, conversation.Address{Agent: "expert", ID: "e"}, agent.Text("How much?"), nil)
		if err != nil {
			return "", err
		}
		ok, err := agent.Wait[bool](ctx, "approval", nil)
		if err != nil {
			return "", err
		}
		one, err := a.Wait(ctx)
		if err != nil {
			return "", err
		}
		other, err := b.Wait(ctx)
		if err != nil {
			return "", err
		}
		if _, err := agent.Step(ctx, "close", c.step("close")); err != nil {
			return "", err
		}
		return fmt.Sprint(in.Day, ": ", one, ", ", other, ", ", reply.Text, ", ", ok), nil
	}, nil)
	return report, part
}

// seven answers "seven", or nothing if an interrupted reply already has that text.
func seven(r agenttest.Request) agenttest.Answer {
	for _, m := range r.Messages {
		if m.Role == providers.RoleAssistant {
			return agenttest.Say("")
		}
	}
	return agenttest.Say("seven")
}

func host(t *testing.T, workflows ...agent.AnyWorkflow) *agenttest.Host {
	return agenttest.New(t, []*agent.Agent{{Name: "expert", Model: "anthropic/claude"}}, &agenttest.Options{
		Workflows: workflows,
		Model:     agenttest.ModelFunc(seven),
	})
}

// TestWorkflowOverCrashes crashes at each write of a run with every operation, and of the runs that it
// starts. There is one result, and no recorded step runs again.
func TestWorkflowOverCrashes(t *testing.T) {
	writes := 0
	for n := range sample.Of(88, 4) {
		synctest.Test(t, func(t *testing.T) {
			c := &tally{}
			report, part := reports(c)
			h := host(t, report, part)
			if n > 0 {
				h.CrashAtWrite(n)
			}
			before := h.Runtime()
			id := agenttest.Begin(h, report, "monday", day{1})
			time.Sleep(10 * time.Hour)
			yes, err := agent.Signal("approval", true)
			if err != nil {
				t.Fatal(err)
			}
			h.SignalRun(id, "yes", yes)
			run, err := h.AwaitRun(id)
			if err != nil || string(run.Output) != `"1: part a, part b, seven, true"` {
				t.Errorf("crash at write %d: got %s, %v", n, run.Output, err)
			}
			crashed := h.Runtime() != before
			if crashed {
				writes = max(writes, n)
			}
			for _, step := range []string{"open", "part a", "part b", "look", "close"} {
				if got := c.seen[step]; got == 0 || got > 2 || got == 2 && !crashed {
					t.Errorf("crash at write %d: step %s: got %d runs", n, step, got)
				}
			}
		})
	}
	t.Logf("run has about %d writes", writes)
}

// TestWorkflowErrors verifies errors of starting a run, of the run itself, and of its parent.
func TestWorkflowErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := agent.NewWorkflow("fails", func(context.Context, day) (int, error) { return 0, errors.New("out of paper") }, nil)
		above := agent.NewWorkflow("above", func(ctx context.Context, in day) (int, error) { return fails.Run(ctx, "below", in, nil) }, nil)
		panics := agent.NewWorkflow("panics", func(context.Context, day) (int, error) { panic("torn") }, nil)
		h := host(t, fails, above, panics)
		for name, w := range map[string]*agent.Workflow[day, int]{"out of paper": fails, "failed: run_failed: out of paper": above, "panic": panics} {
			run, err := h.AwaitRun(agenttest.Begin(h, w, "k", day{1}))
			var settled *conversation.SettledError
			if !errors.As(err, &settled) || run.Outcome != conversation.OutcomeFailed || !strings.Contains(run.Error.Message, name) || run.Error.Type != conversation.CodeRunFailed {
				t.Errorf("%s: got %+v, %v", w.Name(), run, err)
			}
		}
		admit := func(a conversation.Admission) conversation.Code {
			_, err := h.Runtime().Admit(t.Context(), a)
			return conversation.CodeOf(err)
		}
		again, err := fails.Admission("k", day{2})
		if err != nil {
			t.Fatal(err)
		}
		other := conversation.RunOf("above", conversation.RunID(again.Address.ID), []byte(`{"day":1}`))
		signal, _ := conversation.SignalFor("x", 1)
		for name, c := range map[string]struct {
			a    conversation.Admission
			want conversation.Code
		}{
			"another input":             {again, conversation.CodeSubmissionConflict},
			"another workflow":          {other, conversation.CodeSubmissionConflict},
			"an invalid input":          {conversation.RunOf("fails", conversation.RunFor("fails", "new"), []byte(`{"day":"x"}`)), conversation.CodeInvalidRequest},
			"an input that is not JSON": {conversation.RunOf("fails", conversation.RunFor("fails", "new"), []byte(`{`)), conversation.CodeInvalidRequest},
			"an invalid id":             {conversation.RunOf("fails", "run_x", []byte(`{"day":1}`)), conversation.CodeInvalidRequest},
			"an unknown workflow":       {conversation.RunOf("none", conversation.RunFor("none", "new"), []byte(`{"day":1}`)), conversation.CodeWorkflowNotFound},
			"a signal to an unknown run": {
				conversation.Admission{Address: conversation.RunAddress(conversation.RunFor("none", "new")), Key: "s", Delivery: signal}, conversation.CodeRunNotFound,
			},
		} {
			if got := admit(c.a); got != c.want {
				t.Errorf("%s: got %s, want %s", name, got, c.want)
			}
		}
	})
}

// TestConcurrentRuns verifies that started runs work concurrently, and that long results are read from
// their conversation. A wait can be canceled, and a run can be aborted.
func TestConcurrentRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 100_000)
		slow := agent.NewWorkflow("slow", func(ctx context.Context, hours int) (string, error) {
			return long, agent.Sleep(ctx, "work", time.Duration(hours)*time.Hour)
		}, nil)
		many := agent.NewWorkflow("many", func(ctx context.Context, n int) (int, error) {
			var all []*agent.Started[string]
			for i := range n {
				s, err := slow.Start(ctx, fmt.Sprint("part ", i), 1, nil)
				if err != nil {
					return 0, err
				}
				all = append(all, s)
			}
			bytes := 0
			for _, s := range all {
				part, err := s.Wait(ctx)
				if err != nil {
					return 0, err
				}
				bytes += len(part)
			}
			return bytes, nil
		}, nil)
		flushNow := agent.NewWorkflow("hasty", func(ctx context.Context, _ int) (string, error) {
			_, err := slow.Run(ctx, "part", 48, &agent.StartOptions{Timeout: time.Hour})
			if !errors.Is(err, agent.ErrWaitTimeout) {
				return "", fmt.Errorf("the wait ended with %v", err)
			}
			return "gave up", nil
		}, nil)
		h := host(t, slow, many, flushNow)
		began := time.Now()
		parts := sample.Of(80, 20)
		run, err := h.AwaitRun(agenttest.Begin(h, many, "k", parts))
		if err != nil || string(run.Output) != fmt.Sprint(parts*len(long)) {
			t.Errorf("got %.100s, %v", run.Output, err)
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("concurrent runs: got duration %v", took)
		}
		if run, err := h.AwaitRun(agenttest.Begin(h, flushNow, "k", 1)); err != nil || string(run.Output) != `"gave up"` {
			t.Errorf("%s, %v", run.Output, err)
		}
		id := agenttest.Begin(h, slow, "aborted", 24)
		time.Sleep(time.Hour)
		if any, err := h.Runtime().Abort(t.Context(), conversation.RunAddress(id)); !any || err != nil {
			t.Errorf("abort: got %v, %v", any, err)
		}
		var settled *conversation.SettledError
		if run, err := h.AwaitRun(id); !errors.As(err, &settled) || run.Outcome != conversation.OutcomeAborted || run.Output != nil {
			t.Errorf("aborted run: got %+v, %v", run, err)
		}
	})
}

// TestWorkflowAsTool verifies that a tool starts a run and returns its id, or its result.
func TestWorkflowAsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum := agent.NewWorkflow("sum", func(ctx context.Context, in day) (int, error) {
			return 10 * in.Day, agent.Sleep(ctx, "think", time.Hour)
		}, nil)
		for name, c := range map[string]struct {
			options *agent.RunToolOptions
			want    string
		}{
			"id": {nil, `{"runId":"run_`}, "result": {&agent.RunToolOptions{Wait: true}, "30"},
		} {
			desk := &agent.Agent{Name: "desk", Model: "openai/gpt-5", Tools: []agent.Tool{sum.Tool("Sums up a day.", c.options)}}
			h := agenttest.New(t, []*agent.Agent{desk}, &agenttest.Options{
				Workflows: []agent.AnyWorkflow{sum},
				Model: agenttest.ModelFunc(func(r agenttest.Request) agenttest.Answer {
					if view := viewOf(r); strings.Contains(view, c.want) {
						return agenttest.Say("It came back.")
					}
					return agenttest.Call("sum", day{3})
				}),
			})
			if reply := h.Conversation("desk", "d").Ask("Sum up."); reply.Text != "It came back." {
				t.Errorf("%s: got %+v", name, reply)
			}
		}
	})
}

// TestWorkflowBounds verifies that a run fails at a limit, with an error that names the limit.
func TestWorkflowBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := agent.NewWorkflow("large", func(context.Context, int) (string, error) { return strings.Repeat("x", 5<<20), nil }, nil)
		busy := agent.NewWorkflow("busy", func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}, &agent.WorkflowOptions{Durability: agent.Durability{Timeout: time.Minute}})
		full := agent.NewWorkflow("full", func(ctx context.Context, _ int) (int, error) {
			for n := range 4 {
				if _, err := agent.Step(ctx, fmt.Sprint(n), func(context.Context) (string, error) { return strings.Repeat("x", 1000), nil }); err != nil {
					return 0, err
				}
			}
			return 4, nil
		}, &agent.WorkflowOptions{Limits: agent.Limits{OutputBytes: 3000}})
		eager := agent.NewWorkflow("eager", func(ctx context.Context, _ int) (int, error) {
			for n := range 3 {
				if _, err := full.Start(ctx, fmt.Sprint(n), n, nil); err != nil {
					return 0, err
				}
			}
			return 3, nil
		}, &agent.WorkflowOptions{Limits: agent.Limits{Dispatches: 2}})
		h := host(t, full, eager)
		for name, workflow := range map[string]*agent.Workflow[int, int]{"step quota exceeded": full, `Limits.Dispatches of workflow "eager" is 2`: eager} {
			if run, err := h.AwaitRun(agenttest.Begin(h, workflow, "k", 1)); err == nil || run.Error.Type != conversation.CodeRunFailed || !strings.Contains(run.Error.Message, name) {
				t.Errorf("%s: got %+v, %v", workflow.Name(), run, err)
			}
		}
		h = host(t, large, busy)
		if run, err := h.AwaitRun(agenttest.Begin(h, large, "k", 1)); err == nil || run.Error.Type != conversation.CodeRunFailed || !strings.Contains(run.Error.Message, "The result of the run was omitted: it has 5242882 bytes, at most 4194304 are taken.") {
			t.Errorf("large run: got %+v, %v", run.Error, err)
		}
		if run, err := h.AwaitRun(agenttest.Begin(h, busy, "k", 1)); err == nil || run.Error.Type != conversation.CodeTimeout && run.Error.Type != conversation.CodeRunFailed {
			t.Errorf("busy run: got %+v, %v", run.Error, err)
		}
	})
}

// TestChainOfRuns verifies that runs that start the next one and end may exceed the dispatch depth.
// Runs that wait for the next one may not.
func TestChainOfRuns(t *testing.T) {
	const runs = 2*agent.DefaultDispatchDepth + 3
	for _, c := range []struct {
		name  string
		sleep time.Duration
		waits bool
		want  int // number of started runs
	}{
		{"at once", 0, false, runs},
		{"each night", 24 * time.Hour, false, runs},
		{"each waits for the next", 0, true, agent.DefaultDispatchDepth + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var began tally
				ended := make(chan error, 1)
				end := func(err error) {
					select {
					case ended <- err:
					default: // a repeated attempt, or a run that fails with the one it waits for
					}
				}
				var next *agent.Workflow[day, string]
				next = agent.NewWorkflow("next", func(ctx context.Context, in day) (string, error) {
					if _, err := agent.Step(ctx, "begin", began.step("run")); err != nil {
						return "", err
					}
					if err := agent.Sleep(ctx, "night", c.sleep); err != nil {
						return "", err
					}
					if in.Day == runs {
						end(nil)
						return "", nil
					}
					run, err := next.Start(ctx, "next", day{in.Day + 1}, nil)
					if err != nil {
						end(err)
						return "", err
					}
					if !c.waits {
						return "", nil
					}
					return run.Wait(ctx)
				}, nil)
				agenttest.Begin(host(t, next), next, "first", day{1})
				err := <-ended
				if got := began.count("run") - 1; got != c.want || errors.Is(err, agent.ErrDispatchLimit) != c.waits {
					t.Errorf("got %d runs, last start error %v; want %d runs", got, err, c.want)
				}
			})
		})
	}
}
