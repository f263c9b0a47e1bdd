package stats_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/stats"
)

// outline formats a tree, one node per line: kind, state, start, duration and usage.
func outline(n *stats.Node, depth int) string {
	line := fmt.Sprintf("%s%s %q %s @%d +%d", strings.Repeat("  ", depth), n.Kind, n.Name, n.State, n.Start, n.DurationMs)
	if n.Attempt > 0 {
		line += fmt.Sprintf(" attempt %d", n.Attempt)
	}
	if n.Recovered {
		line += " recovered"
	}
	if n.Until != 0 {
		line += fmt.Sprintf(" until @%d", n.Until)
	}
	if n.Signal != "" {
		line += " by " + string(n.Signal)
	}
	if n.Usage != nil {
		line += fmt.Sprintf(" %d/%d $%g", n.Usage.Input, n.Usage.Output, n.Usage.Cost.Total)
	}
	if n.Error != nil {
		line += " error " + n.Error.Type
	}
	line += "\n"
	for _, c := range n.Children {
		line += outline(c, depth+1)
	}
	for _, c := range n.After {
		line += "after " + outline(c, depth+1)
	}
	return line
}

func op(id string) func(*observability.Envelope) {
	return func(e *observability.Envelope) { e.Operation = id }
}

func turn(id string) func(*observability.Envelope) {
	return func(e *observability.Envelope) { e.Operation, e.Turn = "op_1", conversation.TurnID(id) }
}

// task sets the ids of a subagent's event, or of its start and end with the caller's ids.
func task(operation, turn string) func(*observability.Envelope) {
	return func(e *observability.Envelope) {
		e.Task, e.Operation, e.Turn = "task_1", operation, conversation.TurnID(turn)
	}
}

// delegated is a submission with every kind of node: a lost attempt, a task and a compaction.
func delegated() []observability.Event {
	s := newScript()
	gpt := observability.ModelRequest{Provider: "openai", Model: "gpt"}
	s.add(1000, &observability.SubmissionQueued{})
	s.add(1010, &observability.SubmissionRunning{Attempt: 1, QueuedMs: 10})
	s.add(1010, &observability.OperationStart{Kind: "prompt"}, op("op_1"))
	s.add(1010, &observability.AgentStart{Attempt: 1}, op("op_1"))
	s.add(1020, &observability.TurnStart{Purpose: "agent", Model: "openai/gpt"}, turn("t1"))
	s.add(1400, &observability.AgentEnd{Reason: "lost"}, op("op_1"))
	s.add(5000, &observability.SubmissionRunning{Attempt: 2, Resumed: true, QueuedMs: 4000, Recovered: true})
	s.add(5000, &observability.AgentStart{Attempt: 2}, op("op_1"))
	s.add(5010, &observability.TurnRequest{Purpose: "agent", Request: gpt}, turn("t2"), live)
	s.add(5010, &observability.TurnStart{Purpose: "agent", Model: "openai/gpt"}, turn("t2"))
	s.add(5100, &observability.Turn{Purpose: "agent", DurationMs: 90, Request: gpt, Response: observability.ModelResponse{Usage: usage(100, 10, 0.5)}}, turn("t2"))
	s.add(5100, &observability.ToolStart{ToolName: "task", ToolCallID: "call"}, turn("t2"))
	s.add(5100, &observability.ToolStart{ToolName: "look", ToolCallID: "other"}, turn("t2"))
	s.add(5110, &observability.TaskStart{Agent: "finder", ToolCallID: "call"}, task("op_1", "t2"))
	s.add(5110, &observability.OperationStart{Kind: "prompt"}, task("op_2", ""))
	s.add(5110, &observability.AgentStart{}, task("op_2", ""))
	s.add(5120, &observability.TurnStart{Purpose: "agent"}, task("op_2", "t3"))
	s.add(5150, &observability.Turn{Purpose: "agent", DurationMs: 30, Request: gpt, Response: observability.ModelResponse{Usage: usage(1, 1, 0.25)}}, task("op_2", "t3"))
	s.add(5150, &observability.AgentEnd{Reason: "settled", DurationMs: 40}, task("op_2", ""))
	s.add(5150, &observability.Operation{Kind: "prompt", DurationMs: 40, Usage: usage(1, 1, 0)}, task("op_2", ""))
	s.add(5150, &observability.Task{Agent: "finder", ToolCallID: "call", DurationMs: 40, Usage: usage(1, 1, 0)}, task("op_1", "t2"))
	s.add(5155, &observability.Tool{ToolName: "task", ToolCallID: "call", DurationMs: 55}, turn("t2"))
	s.add(5156, &observability.Tool{ToolName: "look", ToolCallID: "other", IsError: true}, turn("t2"))
	s.add(5160, &observability.Log{Level: "warn", Message: "slow"}, turn("t2"), live)
	s.add(5200, &observability.CompactionStart{Reason: "threshold"}, op("op_1"))
	s.add(5260, &observability.Turn{Purpose: "compaction", DurationMs: 60, Request: gpt, Response: observability.ModelResponse{Usage: usage(10, 5, 0.125)}}, turn("t4"))
	s.add(5260, &observability.Compaction{DurationMs: 60, Usage: usage(10, 5, 0.125)}, op("op_1"))
	s.add(5300, &observability.AgentEnd{Reason: "settled", DurationMs: 300}, op("op_1"))
	s.add(5300, &observability.Operation{Kind: "prompt", DurationMs: 4290}, op("op_1"))
	s.add(5300, &observability.SubmissionSettled{Outcome: "completed", Attempt: 2, TotalMs: 4300})
	return s.events
}

const delegatedTree = `submission "desk" completed @1000 +4300 attempt 2 111/16 $0.875
  queue "" ok @1000 +10
  operation "prompt" ok @1010 +4290 111/16 $0.875
    run "lost" lost @1010 +390 attempt 1
      turn "openai/gpt" lost @1020 +380
    run "settled" ok @5000 +300 attempt 2 recovered 111/16 $0.875
      turn "openai/gpt" ok @5010 +90 100/10 $0.5
      tool "task" ok @5100 +55 1/1 $0.25
        task "finder" ok @5110 +40 1/1 $0.25
          operation "prompt" ok @5110 +40 1/1 $0.25
            run "settled" ok @5110 +40 1/1 $0.25
              turn "openai/gpt" ok @5120 +30 1/1 $0.25
      tool "look" error @5100 +56
      log "warn: slow" ok @5160 +0
      compaction "threshold" ok @5200 +60 10/5 $0.125
        turn "openai/gpt" ok @5200 +60 10/5 $0.125
`

func TestTrace(t *testing.T) {
	others := newScript()
	others.env.Submission = "sub_2"
	others.add(1, &observability.SubmissionQueued{})
	others.events[0].ID = "other key"
	for name, events := range map[string][]observability.Event{
		"once": delegated(), "twice and backwards": reversed(delegated()), "among others": append(others.events, delegated()...),
	} {
		n, err := stats.Trace(all(events), "sub_1")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(delegatedTree, outline(n, 0)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestTraceOfALifeSoFar truncates the events after each one: nodes without an end are running, unless
// their parent has ended.
func TestTraceOfALifeSoFar(t *testing.T) {
	events := delegated()
	for n, want := range map[int]string{
		1: "submission \"desk\" queued @1000 +0\n  queue \"\" running @1000 +0\n",
		2: "submission \"desk\" running @1000 +10 attempt 1\n  queue \"\" ok @1000 +10\n",
		5: `submission "desk" running @1000 +20 attempt 1
  queue "" ok @1000 +10
  operation "prompt" running @1010 +10
    run "" running @1010 +10 attempt 1
      turn "openai/gpt" running @1020 +0
`,
		14: `submission "desk" running @1000 +4110 attempt 2 100/10 $0.5
  queue "" ok @1000 +10
  operation "prompt" running @1010 +4100 100/10 $0.5
    run "lost" lost @1010 +390 attempt 1
      turn "openai/gpt" lost @1020 +380
    run "" running @5000 +110 attempt 2 recovered 100/10 $0.5
      turn "openai/gpt" ok @5010 +90 100/10 $0.5
      tool "task" running @5100 +10
        task "finder" running @5110 +0
      tool "look" running @5100 +10
`,
	} {
		tree, err := stats.Trace(all(events[:n]), "sub_1")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, outline(tree, 0)); d != "" {
			t.Errorf("after %d events (-want +got):\n%s", n, d)
		}
	}
}

// TestTraceOfAnyPart omits each event, and all but each: the result is always a tree without duplicate
// nodes.
func TestTraceOfAnyPart(t *testing.T) {
	events := delegated()
	check := func(part []observability.Event) {
		n, err := stats.Trace(all(part), "sub_1")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[*stats.Node]bool{}
		var walk func(*stats.Node)
		walk = func(n *stats.Node) {
			if seen[n] || n.Start == 0 || n.State == "" {
				t.Errorf("without some events: got %+v, seen %t", n, seen[n])
			}
			seen[n] = true
			for _, c := range n.Children {
				walk(c)
			}
		}
		walk(n)
	}
	for i := range events {
		check(slices.Concat(events[:i], events[i+1:]))
		check(events[i : i+1])
	}
}

// TestTraceOfPosts covers attempts to deliver posts, also after the settlement.
func TestTraceOfPosts(t *testing.T) {
	s := newScript()
	s.add(1000, &observability.SubmissionQueued{})
	s.add(1000, &observability.SubmissionRunning{Attempt: 1})
	s.add(1100, &observability.Post{PostID: "post_1", Target: "ledger", Outcome: observability.PostDeferred, Attempts: 1, DurationMs: 50})
	s.add(1200, &observability.SubmissionSettled{Outcome: "completed", TotalMs: 200, Attempt: 1})
	s.add(6100, &observability.Post{PostID: "post_1", Target: "ledger", Outcome: observability.PostDelivered, Attempts: 2, DurationMs: 20})
	s.add(6200, &observability.Post{PostID: "post_2", Target: "https://hooks.example.com", Outcome: observability.PostDead, Attempts: 1, DurationMs: 30})
	n, err := stats.Trace(all(s.events), "sub_1")
	if err != nil {
		t.Fatal(err)
	}
	const want = `submission "desk" completed @1000 +200 attempt 1
  queue "" ok @1000 +0
  post "ledger" deferred @1050 +50 attempt 1
after   post "ledger" ok @6080 +20 attempt 2
after   post "https://hooks.example.com" dead @6170 +30 attempt 1
`
	if d := cmp.Diff(want, outline(n, 0)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestTraceOfWaits covers waits that end in each way, over a pause, and one that still lasts.
func TestTraceOfWaits(t *testing.T) {
	s := newScript()
	start := func(at conversation.Time, name string) {
		s.add(at, &observability.WaitStart{Name: name, ToolName: "approve", ToolCallID: "call", Until: 9000}, turn("t1"))
	}
	end := func(at conversation.Time, name, reason string, took int64) {
		w := &observability.Wait{Name: name, ToolName: "approve", ToolCallID: "call", Reason: reason, DurationMs: took}
		if reason == observability.WaitSignal {
			w.Signal = "sub_7"
		}
		s.add(at, w, turn("t1"))
	}
	s.add(1000, &observability.SubmissionQueued{})
	s.add(1000, &observability.SubmissionRunning{Attempt: 1})
	s.add(1000, &observability.OperationStart{Kind: "prompt"}, turn(""))
	s.add(1000, &observability.AgentStart{Attempt: 1}, turn(""))
	s.add(1010, &observability.TurnStart{Purpose: "agent"}, turn("t1"))
	s.add(1020, &observability.Turn{Purpose: "agent", DurationMs: 10, Request: observability.ModelRequest{Provider: "openai", Model: "gpt"}}, turn("t1"))
	s.add(1020, &observability.ToolStart{ToolName: "approve", ToolCallID: "call"}, turn("t1"))
	start(1030, "a")
	s.add(1040, &observability.AgentEnd{Reason: observability.EndSuspended, DurationMs: 40}, turn(""))
	suspended := len(s.events)
	end(5030, "a", observability.WaitSignal, 4000)
	s.add(5030, &observability.AgentStart{Attempt: 1}, turn(""))
	start(5040, "b")
	end(5140, "b", observability.WaitTimeout, 100)
	start(5150, "c")
	end(5250, "c", observability.WaitAbandoned, 100)
	s.add(5250, &observability.Tool{ToolName: "approve", ToolCallID: "call", DurationMs: 90}, turn("t1"))

	const head = `submission "desk" running @1000 +%[1]d attempt 1
  queue "" ok @1000 +0
  operation "prompt" running @1000 +%[1]d
    run "parked" ok @1000 +40 attempt 1
      turn "openai/gpt" ok @1010 +10
`
	for _, c := range []struct {
		events []observability.Event
		want   string
	}{
		{s.events[:suspended], fmt.Sprintf(head, 40) + `    tool "approve" running @1020 +20
      wait "a" running @1030 +10 until @9000
`},
		{s.events, fmt.Sprintf(head, 4250) + `    tool "approve" ok @1020 +4230
      wait "a" ok @1030 +4000 until @9000 by sub_7
      wait "b" timeout @5040 +100 until @9000
      wait "c" abandoned @5150 +100 until @9000
    run "" running @5030 +220 attempt 1
`},
	} {
		n, err := stats.Trace(all(c.events), "sub_1")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, outline(n, 0)); d != "" {
			t.Errorf("after %d events (-want +got):\n%s", len(c.events), d)
		}
	}
}

// TestTraceOfEndsOnly has no start events: durations come from the ends.
func TestTraceOfEndsOnly(t *testing.T) {
	ends := slices.DeleteFunc(delegated(), func(e observability.Event) bool {
		switch e.Type {
		case observability.TypeSubmissionSettled, observability.TypeOperation, observability.TypeTurn, observability.TypeTool, observability.TypeTask:
			return false
		}
		return true
	})
	n, err := stats.Trace(all(ends), "sub_1")
	if err != nil {
		t.Fatal(err)
	}
	want := `submission "desk" completed @1000 +4300 attempt 2 111/16 $0.875
  queue "" lost @1000 +0
  operation "prompt" ok @1010 +4290 111/16 $0.875
    turn "openai/gpt" ok @5010 +90 100/10 $0.5
    tool "task" ok @5100 +55
    task "finder" ok @5110 +40 1/1 $0.25
      operation "prompt" ok @5110 +40 1/1 $0.25
        turn "openai/gpt" ok @5120 +30 1/1 $0.25
    tool "look" error @5156 +0
    turn "openai/gpt" ok @5200 +60 10/5 $0.125
`
	if d := cmp.Diff(want, outline(n, 0)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestTraceOfCallsWithoutAWord covers calls that only live events report: they are in their attempt,
// in its order, and end with the log of their failure.
func TestTraceOfCallsWithoutAWord(t *testing.T) {
	s := newScript()
	m1, m2 := observability.ModelRequest{Provider: "local", Model: "m1"}, observability.ModelRequest{Provider: "local", Model: "m2"}
	failed := &observability.Log{Level: "warn", Message: observability.LogCallFailed, Attributes: map[string]any{"model": "local/m1", "reason": "network", "cause": "no route"}}
	s.add(1000, &observability.SubmissionQueued{})
	s.add(1000, &observability.SubmissionRunning{Attempt: 1})
	s.add(1000, &observability.OperationStart{Kind: "prompt"}, op("op_1"))
	s.add(1000, &observability.AgentStart{Attempt: 1}, op("op_1"))
	s.add(1010, &observability.TurnRequest{Request: m1}, turn("t1"), live)
	s.add(1500, &observability.AgentEnd{Reason: "lost"}, op("op_1"))
	s.add(1500, &observability.SubmissionRunning{Attempt: 2, Resumed: true, Recovered: true})
	s.add(1500, &observability.AgentStart{Attempt: 2}, op("op_1"))
	s.add(1510, &observability.TurnRequest{Request: m1}, turn("t2"), live)
	s.add(1530, failed, turn("t2"), live)
	s.add(1610, &observability.TurnRequest{Request: m2}, turn("t3"), live)
	s.add(1620, &observability.TurnStart{Model: "local/m2"}, turn("t3"))
	s.add(1700, &observability.Turn{DurationMs: 90, Retries: 1, Request: m2}, turn("t3"))
	s.add(1700, &observability.AgentEnd{Reason: "settled", DurationMs: 200}, op("op_1"))
	s.add(1700, &observability.Operation{Kind: "prompt", DurationMs: 700}, op("op_1"))
	s.add(1700, &observability.SubmissionSettled{Outcome: "completed", Attempt: 2, TotalMs: 700})
	for name, c := range map[string]struct {
		events []observability.Event
		want   string
	}{
		"to the end": {s.events, `submission "desk" completed @1000 +700 attempt 2
  queue "" ok @1000 +0
  operation "prompt" ok @1000 +700
    run "lost" lost @1000 +10 attempt 1
      turn "local/m1" lost @1010 +0
    run "settled" ok @1500 +200 attempt 2 recovered
      turn "local/m1" error @1510 +20 error network
        log "warn: model call failed" ok @1530 +0 error network
      turn "local/m2" ok @1620 +80
`},
		"before the second call": {s.events[:10], `submission "desk" running @1000 +530 attempt 2
  queue "" ok @1000 +0
  operation "prompt" running @1000 +530
    run "lost" lost @1000 +10 attempt 1
      turn "local/m1" lost @1010 +0
    run "" running @1500 +30 attempt 2 recovered
      turn "local/m1" error @1510 +20 error network
        log "warn: model call failed" ok @1530 +0 error network
`},
	} {
		n, err := stats.Trace(all(c.events), "sub_1")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, outline(n, 0)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestTraceOfNothing(t *testing.T) {
	if _, err := stats.Trace(all(delegated()), "sub_9"); !errors.Is(err, stats.ErrNoEvents) {
		t.Errorf("got error %v, want %v", err, stats.ErrNoEvents)
	}
}
