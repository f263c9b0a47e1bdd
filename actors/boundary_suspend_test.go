package actors_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/storage"
)

// napTime exceeds Options.UnloadAfter.
const napTime = 45 * time.Second

// waits is a durable tool that sleeps between its two steps.
func (p *process) waits() agent.Tool {
	return agent.NewTool("wait", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		call, _ := agent.CallFrom(ctx)
		if err := p.invoke(ctx, "tool wait", call.ID); err != nil {
			return "", err
		}
		step := func(name string) (string, error) {
			return agent.Step(ctx, name, func(ctx context.Context) (string, error) {
				return name + " done", p.whole(ctx, "step "+name, call.ID)
			})
		}
		one, err := step("one")
		if err != nil {
			return "", err
		}
		if err := agent.Sleep(ctx, "nap", napTime); err != nil {
			return "", err
		}
		two, err := step("two")
		return one + ", " + two, err
	}, &agent.ToolOptions{Durable: true})
}

func (p *process) suspendedVendor() *vendor {
	return onlyModel(func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		seen := modelRequest{req: req}.seen()
		if strings.Contains(strings.Join(seen, "\n"), "two done") {
			return p.answers(ctx, a, "model 2", seen, "All ", "done.")
		}
		return p.calls(ctx, a, "model 1", little, "wait")
	})
}

// checkSuspended: each step and the sleep are recorded once and not repeated, nothing continues early,
// and at the end no timer and no journal entry remains.
func (s *scenario) checkSuspended(t *testing.T) {
	t.Helper()
	time.Sleep(3 * time.Minute) // the next full minutes
	facts := s.facts()
	s.checkSettled(t, facts)
	recorded := map[string]time.Time{}
	var until conversation.Time
	var suspended *conversation.Suspended
	for _, f := range facts {
		switch r := f.record.(type) {
		case *conversation.StepRecorded:
			if _, ok := recorded[r.Name]; ok {
				t.Errorf("step %s is recorded twice", r.Name)
			}
			recorded[r.Name] = f.at
			if r.Name == "nap" {
				if err := until.UnmarshalText([]byte(strings.Trim(string(r.Output), `"`))); err != nil {
					t.Error(err)
				}
			}
		case *conversation.Suspended:
			if suspended = r; r.Until != until || len(recorded) != 2 {
				t.Errorf("got suspended until %s after %v, want until %s", r.Until, recorded, until)
			}
		case *conversation.AttemptStarted:
			if suspended != nil && r.At < suspended.Until {
				t.Errorf("got next attempt at %s, want suspended until %s", r.At, suspended.Until)
			}
			if suspended = nil; r.Attempt > len(s.processes) {
				t.Errorf("got attempt %d in process %d", r.Attempt, len(s.processes))
			}
		}
	}
	if len(recorded) != 3 {
		t.Errorf("recorded %v", recorded)
	}
	for _, d := range s.invocations {
		name, _ := strings.CutPrefix(d.event, "step ")
		if at, ok := recorded[name]; ok && d.at.After(at) {
			t.Errorf("got a repeated call of %s in process %d", d.event, d.process)
		}
		if name == "two" && conversation.TimeOf(d.at) < until {
			t.Errorf("got second step at %s, want after %s", d.at, until)
		}
	}
	checkTranscriptText(t, s.processes[len(s.processes)-1].node.snapshot(chat("c")))
	s.checkNothingLeft()
}

func checkTranscriptText(t *testing.T, snap conversation.Snapshot) {
	t.Helper()
	text := ""
	for _, m := range snap.Messages {
		for _, p := range m.Parts {
			if m.Role == conversation.RoleAssistant && p.Text != nil {
				text += *p.Text
			}
		}
	}
	if text != "All done." {
		t.Errorf("got answer %q", text)
	}
}

func (w *world) timers() (keys []string) {
	w.tb.Helper()
	page, err := w.bucket.List(context.Background(), storage.ListQuery{Prefix: "timer/"})
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, k := range page.Keys {
		keys = append(keys, k.Key)
	}
	return keys
}

func (w *world) checkNothingLeft() {
	w.tb.Helper()
	w.checkTimersLeft(func(key string) bool { return false })
}

// checkTimersLeft fails the test if a timer remains that may rejects, or a journal lists pending work.
func (w *world) checkTimersLeft(may func(key string) bool) {
	w.tb.Helper()
	if keys := slices.DeleteFunc(w.timers(), may); len(keys) > 0 {
		w.tb.Errorf("got remaining timers %q", keys)
	}
	for _, j := range w.journals() {
		pending := slices.DeleteFunc(j.Entries, func(e storage.JournalEntry) bool { return e.Opening }) // caused by reads of the test
		if len(pending) > 0 {
			w.tb.Errorf("journal %d of %s lists %+v", j.N, j.Member, pending)
		}
	}
}

// TestCrashWhileSuspended crashes the process once at every boundary of a run with a suspended call.
func TestCrashWhileSuspended(t *testing.T) {
	fleet := actors.NewLocalFleet(t)
	var boundaries []string
	runScript(t, fleet, &scenario{lost: true, suspends: true}, nil, func(t *testing.T, s *scenario) {
		boundaries = s.processes[0].reachedBoundaries()
		s.checkSuspended(t)
		if got := len(only[*conversation.Suspended](s.records(chat("c")))); got != 1 {
			t.Errorf("got %d suspensions", got)
		}
	})
	for _, event := range []string{"send PUT timer/", "landed PUT timer/", "send DELETE timer/", "send LIST timer/"} {
		if !slices.ContainsFunc(boundaries, func(b string) bool {
			return strings.Contains(b, event)
		}) {
			t.Errorf("want boundary %q in %q", event, boundaries)
		}
	}
	crashEverywhere(t, fleet, &scenario{suspends: true}, boundaries, (*scenario).checkSuspended, (*scenario).showSuspension,
		sample.Of([]string{"continued by another", "parked by another", "over before", "landed after crash"}, nil))
}

func (s *scenario) showSuspension(shown map[string]int) {
	runs := map[int]int{}
	for _, d := range s.invocations {
		if d.event == "tool wait" {
			runs[d.process]++
		}
	}
	switch {
	case runs[0] == 1 && runs[1] == 1:
		shown["continued by another"]++
	case runs[1] == 2:
		shown["parked by another"]++
	case runs[1] == 0:
		shown["over before"]++
	}
	if s.lateWrites > 0 {
		shown["landed after crash"]++
	}
}
