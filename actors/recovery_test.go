package actors_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/providers"
)

// tools are the tools of a recovery test: quick returns at once, stuck only when its context ends.
// Both count their runs.
type tools struct {
	quick, stuck atomic.Int32
	entered      chan struct{} // receives at every run of stuck
}

func newTools() *tools { return &tools{entered: make(chan struct{}, 10)} }

func (ts *tools) agent() *agent.Agent {
	return chatAgent(
		agent.NewTool("quick", "Returns at once.", func(context.Context, struct{}) (string, error) {
			ts.quick.Add(1)
			return "quick result", nil
		}, nil),
		agent.NewTool("stuck", "Never returns.", func(ctx context.Context, _ struct{}) (string, error) {
			ts.stuck.Add(1)
			ts.entered <- struct{}{}
			<-ctx.Done()
			return "", ctx.Err()
		}, nil),
	)
}

// doomed returns the options of a node that will lose its bucket: it does not wait long for writes.
func doomed(a *agent.Agent) actors.Options {
	opts := agents(a)
	opts.DrainTimeout = 50 * time.Millisecond
	return opts
}

// TestKilledNodesWorkIsRecovered kills a node in mid-reply, in mid-tool and with a queue,
// without further requests.
func TestKilledNodesWorkIsRecovered(t *testing.T) {
	reply, tool, queue := chat("reply"), chat("tool"), chat("queue")
	w := newWorld(t)
	ts := newTools()
	model := make(stage)
	crashed := w.start(setup{opts: doomed(ts.agent()), model: model})

	crashed.admit(reply, "r", "tell me a story")
	model.next(t).text("Once upon a time")
	w.until("the text", func() bool { return len(only[*conversation.Delta](w.records(reply))) == 1 })

	crashed.admit(tool, "t", "use your tools")
	c := model.next(t)
	c.call("p1", "quick", "{}")
	c.call("p2", "stuck", "{}")
	c.finish()
	await(t, ts.entered, "the tool")
	w.until("the first result", func() bool { return len(only[*conversation.ToolSettled](w.records(tool))) == 1 })

	for i := range 3 {
		crashed.admit(queue, fmt.Sprint(i), fmt.Sprintf("message %d", i))
	}
	model.next(t)
	early, offset := crashed.updates(reply, conversation.Start)
	crashed.cut()

	var requests requestLog
	successor := w.start(setup{opts: agents(ts.agent()), model: requests.over(emits(2))})
	w.untilSettled(reply, 1)
	w.untilSettled(tool, 1)
	w.untilSettled(queue, 3)

	checkContinued(t, w, reply, requests.find(t, "tell me a story"))
	checkToolsKept(t, w, tool, ts, requests.find(t, "use your tools"))
	checkQueue(t, w, queue)
	checkReaderResumes(t, successor, reply, early, offset)
	w.untilIdle() // only the successor's journal is left, and it is empty
	if err := successor.stop(); err != nil {
		t.Error(err)
	}
	for key := range w.listing() {
		if strings.HasPrefix(key, "pending/") {
			t.Errorf("got %s after everything settled", key)
		}
	}
}

// requestLog keeps the requests to a model.
type requestLog struct {
	calls chan providers.Request
}

func (l *requestLog) over(next script) script {
	l.calls = make(chan providers.Request, 100)
	return func(ctx context.Context, req providers.Request, a *providers.Assembler) error {
		l.calls <- req
		return next(ctx, req, a)
	}
}

// find returns the prompt of the conversation that began with a message.
func (l *requestLog) find(t *testing.T, first string) []string {
	t.Helper()
	for range len(l.calls) {
		req := <-l.calls
		if seen := shown(req); slices.Contains(seen, "user: "+first) {
			return seen
		}
		l.calls <- req
	}
	t.Fatalf("got no model call for %q", first)
	return nil
}

// types returns the record types of a log in order.
func types(records []conversation.Record) []conversation.RecordType {
	var out []conversation.RecordType
	for _, r := range records {
		out = append(out, r.Type())
	}
	return out
}

// outcomes fails unless each submission settled exactly once, in order of admission.
func outcomes(t *testing.T, records []conversation.Record) {
	t.Helper()
	var admitted, settled []conversation.SubmissionID
	for _, r := range records {
		switch r := r.(type) {
		case *conversation.SubmissionAdmitted:
			admitted = append(admitted, r.Submission)
		case *conversation.SubmissionSettled:
			settled = append(settled, r.Submission)
			if r.Outcome != conversation.OutcomeCompleted {
				t.Errorf("submission %s: got outcome %s: %v", r.Submission, r.Outcome, r.Error)
			}
		}
	}
	if diff := cmp.Diff(admitted, settled); diff != "" {
		t.Errorf("settled submissions (-want +got):\n%s", diff)
	}
}

func checkContinued(t *testing.T, w *world, at conversation.Address, seen []string) {
	t.Helper()
	records := w.records(at)
	outcomes(t, records)
	want := []conversation.RecordType{
		conversation.TypeConversationCreated, conversation.TypeSubmissionAdmitted, conversation.TypeAttemptStarted,
		conversation.TypeResponseStarted, conversation.TypeDelta,
		conversation.TypeStepCompleted, conversation.TypeAdvisory, conversation.TypeAttemptStarted,
		conversation.TypeResponseStarted, conversation.TypeDelta,
	}
	got := types(records)
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Fatalf("records of an interrupted reply (-want +got):\n%s", diff)
	}
	if s := records[5].(*conversation.StepCompleted); s.StopReason != conversation.ReasonInterrupted {
		t.Errorf("got stop reason %q of the interrupted step", s.StopReason)
	}
	note := records[6].(*conversation.Advisory)
	if note.Display != conversation.DisplayHidden || note.Text == "" {
		t.Errorf("got advisory %+v, want a hidden text", note)
	}
	if a := records[7].(*conversation.AttemptStarted); a.Attempt != 2 {
		t.Errorf("got attempt %d after the crash, want 2", a.Attempt)
	}
	if first, second := records[3].(*conversation.ResponseStarted), records[8].(*conversation.ResponseStarted); first.Message != second.Message || first.Turn == second.Turn {
		t.Errorf("got reply %s in %s after %s in %s, want one message and two turns", second.Message, second.Turn, first.Message, first.Turn)
	}
	wantSeen := []string{
		"user: tell me a story",
		"assistant: Once upon a time",
		"user: <advisory>\n" + note.Text + "\n</advisory>",
	}
	if diff := cmp.Diff(wantSeen, seen); diff != "" {
		t.Errorf("prompt (-want +got):\n%s", diff)
	}
}

func checkToolsKept(t *testing.T, w *world, at conversation.Address, ts *tools, seen []string) {
	t.Helper()
	records := w.records(at)
	outcomes(t, records)
	if quick, stuck := ts.quick.Load(), ts.stuck.Load(); quick != 1 || stuck != 1 {
		t.Errorf("got %d runs of quick and %d of stuck, want 1 each", quick, stuck)
	}
	results := only[*conversation.ToolSettled](records)
	if len(results) != 2 {
		t.Fatalf("got %d results, want 2", len(results))
	}
	if r := results[0]; r.Failed || string(r.Output) != `"quick result"` {
		t.Errorf("got result of the completed tool %+v", r)
	}
	lost := results[1]
	if !lost.Failed || !strings.Contains(lost.ErrorText, "outcome of this call is unknown") || lost.DurationMs != nil {
		t.Errorf("got result of the interrupted tool %+v", lost)
	}
	wantSeen := []string{
		"user: use your tools",
		"assistant: quick{}|stuck{}",
		"tool: p1=quick result|p2!" + lost.ErrorText,
	}
	if diff := cmp.Diff(wantSeen, seen); diff != "" {
		t.Errorf("prompt (-want +got):\n%s", diff)
	}
}

func checkQueue(t *testing.T, w *world, at conversation.Address) {
	t.Helper()
	records := w.records(at)
	outcomes(t, records)
	var attempts []int
	for _, a := range only[*conversation.AttemptStarted](records) {
		attempts = append(attempts, a.Attempt)
	}
	if diff := cmp.Diff([]int{1, 2, 1, 1}, attempts); diff != "" {
		t.Errorf("attempts of the queue (-want +got):\n%s", diff)
	}
}

// checkReaderResumes compares the chunks that a reader got from both nodes with a read from the start.
func checkReaderResumes(t *testing.T, n *node, at conversation.Address, early []conversation.Chunk, offset conversation.Offset) {
	t.Helper()
	late, head := n.updates(at, offset)
	whole, end := n.updates(at, conversation.Start)
	if head != end {
		t.Errorf("got the resumed reader at %v, want %v", head, end)
	}
	if diff := cmp.Diff(whole, slices.Concat(early, late)); diff != "" {
		t.Errorf("chunks of a resumed reader (-want +got):\n%s", diff)
	}
	last := conversation.Position{Batch: -1}
	for _, c := range whole {
		if c.Position.Compare(last) <= 0 || c.Position.Batch > last.Batch && c.Position.Index != 0 {
			t.Errorf("chunk %v follows %v", c.Position, last)
		}
		last = c.Position
	}
}

func TestDrainReleasesTheAttempt(t *testing.T) {
	w := newWorld(t)
	model := make(stage)
	n := w.start(setup{opts: agents(chatAgent()), model: model})
	n.admit(chat("c"), "k", "tell me a story")
	model.next(t).text("Once upon a time")
	w.until("the text", func() bool { return len(only[*conversation.Delta](w.records(chat("c")))) == 1 })
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	records := w.records(chat("c"))
	released, ok := records[len(records)-1].(*conversation.AttemptReleased)
	if !ok || released.Attempt != 1 || released.Reason != "drain" {
		t.Fatalf("got last record %+v of a drained node, want attempt 1 released", records[len(records)-1])
	}
	if _, err := n.rt.Admit(t.Context(), message(chat("c"), "later", "hello")); err == nil {
		t.Error("got an admission by a stopped node")
	}
	j := w.journals()
	if len(j) != 1 || len(j[0].Entries) != 1 {
		t.Fatalf("got journals %v, want the unsettled submission listed", j)
	}

	var requests requestLog
	successor := w.start(setup{opts: agents(chatAgent()), model: requests.over(emits(2))})
	w.untilSettled(chat("c"), 1)
	records = w.records(chat("c"))
	outcomes(t, records)
	var attempts []int
	for _, a := range only[*conversation.AttemptStarted](records) {
		attempts = append(attempts, a.Attempt)
	}
	if diff := cmp.Diff([]int{1, 1}, attempts); diff != "" {
		t.Errorf("attempt numbers around a drain (-want +got):\n%s", diff)
	}
	seen := requests.find(t, "tell me a story")
	if len(seen) != 3 || seen[1] != "assistant: Once upon a time" {
		t.Errorf("after a drain: got prompt %q", seen)
	}
	w.untilIdle()
	if err := successor.stop(); err != nil {
		t.Error(err)
	}
}

func TestStopWithoutWorkLeavesNoJournal(t *testing.T) {
	w := newWorld(t)
	n := w.start(setup{opts: agents(chatAgent()), model: emits(2)})
	for i := range 5 {
		n.admit(chat(fmt.Sprint(i)), "k", "hello")
	}
	for i := range 5 {
		w.untilSettled(chat(fmt.Sprint(i)), 1)
	}
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	for key := range w.listing() {
		if strings.HasPrefix(key, "pending/") {
			t.Errorf("got %s after a stop without pending work", key)
		}
	}
}

// TestEveryAttemptCrashes crashes one node after the other until the agent's attempt limit.
func TestEveryAttemptCrashes(t *testing.T) {
	a := chatAgent()
	a.Durability.MaxAttempts = 2
	w := newWorld(t)
	model := make(stage)
	first := w.start(setup{opts: doomed(a), model: model})
	r := first.admit(chat("c"), "k", "hello")
	model.next(t)
	first.cut()
	second := w.start(setup{opts: doomed(a), model: model})
	model.next(t)
	second.cut()
	third := w.start(setup{opts: agents(a), model: emits(1)})
	settled := w.untilSettled(chat("c"), 1)
	if len(settled) != 1 || settled[0].Submission != r.SubmissionID || settled[0].Outcome != conversation.OutcomeFailed ||
		settled[0].Error == nil || settled[0].Error.Type != conversation.CodeRetryExhausted {
		t.Errorf("got settlement %+v", settled[0])
	}
	note := only[*conversation.Advisory](w.records(chat("c")))
	if len(note) != 1 || note[0].Display != conversation.DisplayDiagnostic || note[0].Submission != r.SubmissionID {
		t.Errorf("got advisories %+v, want one diagnostic", note)
	}
	w.untilIdle()
	if err := third.stop(); err != nil {
		t.Error(err)
	}
}
