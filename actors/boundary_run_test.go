package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
)

// workflows returns the workflow under test: three steps, two parallel runs, a sleep, a signal, and a
// call of an agent.
func (p *process) workflows() []*agent.Agent {
	step := func(ctx context.Context, of, name string) error {
		_, err := agent.Step(ctx, name, func(ctx context.Context) (string, error) { return name + " done", p.whole(ctx, "step "+of+name, "") })
		return err
	}
	part := agent.NewWorkflow("part", func(ctx context.Context, name string) (string, error) {
		return "part " + name, step(ctx, name+" ", "write")
	}, nil)
	report := agent.NewWorkflow("report", func(ctx context.Context, _ struct{}) (string, error) {
		if err := p.invoke(ctx, "run", ""); err != nil {
			return "", err
		}
		if err := step(ctx, "", "one"); err != nil {
			return "", err
		}
		var parts []*agent.Started[string]
		for _, name := range []string{"a", "b"} {
			s, err := part.Start(ctx, name, name, nil)
			if err != nil {
				return "", err
			}
			parts = append(parts, s)
		}
		if err := agent.Sleep(ctx, "nap", napTime); err != nil {
			return "", err
		}
		if err := step(ctx, "", "two"); err != nil {
			return "", err
		}
		reply, err := agent.Ask(ctx, chat("c"), agent.Text("How much?"), nil)
		if err != nil {
			return "", err
		}
		out := reply.Text
		for _, s := range parts {
			done, err := s.Wait(ctx)
			if err != nil {
				return "", err
			}
			out += ", " + done
		}
		yes, err := agent.Wait[bool](ctx, "approval", nil)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(out, ", ", yes), step(ctx, "", "three")
	}, nil)
	return []*agent.Agent{chatAgent(), part.Definition(), report.Definition()}
}

func (p *process) approve() error {
	d, err := conversation.SignalFor("approval", true)
	if err == nil {
		_, err = p.node.rt.Admit(context.Background(), conversation.Admission{Address: p.s.at(), Delivery: d, Key: "approved"})
	}
	return err
}

func (p *process) expertVendor() *vendor {
	return onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		return p.answers(ctx, a, "model", modelRequest{req: req}.seen(), "sev", "en")
	})
}

// checkRun: there is one result, each step is recorded once and not repeated afterwards, and no
// pending work remains.
func (s *scenario) checkRun(t *testing.T) {
	t.Helper()
	time.Sleep(3 * time.Minute) // the next full minutes
	facts, recorded := s.facts(), map[string]time.Time{}
	for _, child := range []string{"a", "b"} {
		call := only[*conversation.ToolCalled](s.records(s.at()))[0].Call
		id := conversation.RunFor("part", s.at().ID+" "+string(call)+" "+child)
		s.recordedOf(t, conversation.RunAddress(id), child+" ", recorded)
	}
	s.recordedOf(t, s.at(), "", recorded)
	settled, output := 0, ""
	for _, f := range facts {
		switch r := f.record.(type) {
		case *conversation.SubmissionSettled:
			if r.Submission == s.submission() {
				settled++
			}
		case *conversation.ToolSettled:
			if err := json.Unmarshal(r.Output, &output); err != nil {
				t.Errorf("got output %s, error %q", r.Output, r.ErrorText)
			}
		case *conversation.AttemptStarted:
			if r.Attempt > len(s.processes) {
				t.Errorf("got attempt %d in process %d", r.Attempt, len(s.processes))
			}
		}
	}
	output = strings.ReplaceAll(output, "\n\n", "") // where the agent's reply was interrupted
	if settled != 1 || output != "seven, part a, part b, true" {
		t.Errorf("got %d settlements with output %q", settled, output)
	}
	if got := len(only[*conversation.SubmissionAdmitted](s.records(chat("c")))); got != 1 {
		t.Errorf("got %d agent calls", got)
	}
	for _, name := range []string{"one", "two", "three", "a write", "b write"} {
		if _, ok := recorded[name]; !ok {
			t.Errorf("step %s not recorded", name)
		}
	}
	for _, d := range s.invocations {
		name, _ := strings.CutPrefix(d.event, "step ")
		if at, ok := recorded[name]; ok && d.at.After(at) {
			t.Errorf("got a repeated call of %s in process %d", d.event, d.process)
		}
	}
	s.checkTimersLeft(func(key string) bool { return strings.Contains(key, "/20000131T") }) // timeouts of the waits
}

// recordedOf notes when the steps of a log were recorded.
func (s *scenario) recordedOf(t *testing.T, at conversation.Address, of string, recorded map[string]time.Time) {
	t.Helper()
	for _, f := range s.factsOf(at) {
		if r, ok := f.record.(*conversation.StepRecorded); ok {
			if _, again := recorded[of+r.Name]; again {
				t.Errorf("step %s%s is recorded twice", of, r.Name)
			}
			recorded[of+r.Name] = f.at
		}
	}
}

// TestCrashInRun crashes the process once at every boundary of a run and its child runs.
func TestCrashInRun(t *testing.T) {
	fleet := actors.NewLocalFleet(t)
	var boundaries []string
	runScript(t, fleet, &scenario{lost: true, runs: true}, nil, func(t *testing.T, s *scenario) {
		boundaries = s.processes[0].reachedBoundaries()
		s.checkRun(t)
	})
	for _, event := range []string{"step one begins", "step a write ends", "step b write ends", "step three ends", "model has said sev", "send PUT timer/"} {
		if !slices.ContainsFunc(boundaries, func(b string) bool { return strings.Contains(b, event) }) {
			t.Errorf("want boundary %q in %q", event, boundaries)
		}
	}
	crashEverywhere(t, fleet, &scenario{runs: true}, boundaries, (*scenario).checkRun, (*scenario).showRun,
		sample.Of([]string{"goes on in another", "over before", "landed after crash", "step again"}, nil))
}

func (s *scenario) showRun(shown map[string]int) {
	runs, steps := map[int]int{}, map[string]int{}
	for _, d := range s.invocations {
		if d.event == "run" {
			runs[d.process]++
		}
		if strings.HasPrefix(d.event, "step ") {
			if steps[d.event]++; steps[d.event] == 2 {
				shown["step again"]++
			}
		}
	}
	switch {
	case runs[0] > 0 && runs[1] > 0:
		shown["goes on in another"]++
	case runs[1] == 0:
		shown["over before"]++
	}
	if s.lateWrites > 0 {
		shown["landed after crash"]++
	}
}
