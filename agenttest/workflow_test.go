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
)

type day struct {
	Day int `json:"day"`
}

// tally counts what has happened, by name.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *tally) count(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	c.seen[what]++
	return c.seen[what]
}

// steps are what the workflow below does, each once: more only where a process died before the record.
func (c *tally) step(name string) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { return c.count(name), nil }
}

// reports are workflows with all that a run may do: three steps, two runs beside each other, a sleep, a signal and an agent
// that is asked.
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

// host serves workflows, and an expert.
func host(t *testing.T, workflows ...agent.AnyWorkflow) *agenttest.Host {
	return agenttest.New(t, []*agent.Agent{{Name: "expert", Model: "anthropic/claude"}}, &agenttest.Options{
		Workflows: workflows,
		Model:     agenttest.ModelFunc(func(agenttest.Request) agenttest.Answer { return agenttest.Say("seven") }),
	})
}

// TestWorkflowOverCrashes at every write of a run with all that a run may do, and of what it starts: one result, and no step
// runs again whose result is recorded.
func TestWorkflowOverCrashes(t *testing.T) {
	writes := 0
	for n := range sample.Of(60, 4) {
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
				t.Errorf("crash at write %d: %s, %v", n, run.Output, err)
			}
			crashed := h.Runtime() != before
			if crashed {
				writes = max(writes, n)
			}
			for _, step := range []string{"open", "part a", "part b", "look", "close"} {
				if got := c.seen[step]; got == 0 || got > 2 || got == 2 && !crashed {
					t.Errorf("crash at write %d: %s ran %d times", n, step, got)
				}
			}
		})
	}
	t.Logf("a run has about %d writes", writes)
}

// TestWorkflowErrors: what is wrong with a run is told to who begins it, or is its error, and that of who has started it.
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
				t.Errorf("%s: %+v, %v", w.Name(), run, err)
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
			"another input":           {again, conversation.CodeSubmissionConflict},
			"another workflow":        {other, conversation.CodeSubmissionConflict},
			"an input that fits not":  {conversation.RunOf("fails", conversation.RunFor("fails", "new"), []byte(`{"day":"x"}`)), conversation.CodeInvalidRequest},
			"an input that is none":   {conversation.RunOf("fails", conversation.RunFor("fails", "new"), []byte(`{`)), conversation.CodeInvalidRequest},
			"an id that is none":      {conversation.RunOf("fails", "run_x", []byte(`{"day":1}`)), conversation.CodeInvalidRequest},
			"a workflow that is none": {conversation.RunOf("none", conversation.RunFor("none", "new"), []byte(`{"day":1}`)), conversation.CodeWorkflowNotFound},
			"a signal to nobody": {
				conversation.Admission{Address: conversation.RunAddress(conversation.RunFor("none", "new")), Key: "s", Delivery: signal}, conversation.CodeRunNotFound,
			},
		} {
			if got := admit(c.a); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	})
}
