package machine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

func (w *world) working() bool {
	return len(w.calls) > 0 || len(w.tools) > 0 || w.ending != nil || w.start != nil
}

// busy reports whether a submission runs something exclusive.
func (w *world) busy(id conversation.SubmissionID) bool {
	return slices.ContainsFunc(w.calls, func(c *modelCall) bool { return c.Submission == id }) ||
		slices.ContainsFunc(w.tools, func(c *runningTool) bool { return c.Submission == id }) ||
		w.ending != nil && w.ending.Submission == id || w.start != nil && w.start.Submission == id
}

// attempted returns the submission whose attempt, or whose root's attempt, is durable.
func (w *world) attempted(id conversation.SubmissionID) *conversation.Submission {
	sub := w.durable.Submission(id)
	root := sub
	for root != nil && root.Child != "" {
		root = w.durable.Submission(root.Parent)
	}
	if root == nil || !root.Running || root.Writer != w.writer {
		violate("%s runs without its attempt", id)
	}
	w.mayRun(root)
	return sub
}

func (w *world) callModel(e machine.CallModel) {
	if w.limits.Function != "" {
		violate("a model is called for a run")
	}
	w.attempted(e.Submission)
	switch {
	case w.busy(e.Submission):
		violate("model call while another, a tool or a hook runs")
	case w.emitted[e.Turn] != nil:
		violate("duplicate turn %s", e.Turn)
	}
	if w.durable.Submission(e.Submission) == nil {
		violate("%s starts before it is durable", e.Submission)
	}
	sub := w.m.State().Submission(e.Submission)
	if sub.OpenTurn() != "" || len(sub.OpenCalls()) > 0 {
		violate("model call with the open turn %q and calls %+v", sub.OpenTurn(), sub.OpenCalls())
	}
	if w.limits.DeliveryStartedHook && sub.Child == "" && !sub.DeliveryStarted {
		violate("model call before the delivery hook of %s", sub.ID)
	}
	if r := sub.Retry; r != nil {
		w.seen["called later"]++
		if r.Until > w.clock() {
			violate("model call of %s at %s, want not before %s", sub.ID, w.clock(), r.Until)
		}
	}
	w.calls = append(w.calls, &modelCall{CallModel: e})
	w.emitted[e.Turn] = &output{}
}

func (w *world) runTool(e machine.RunTool) {
	sub := w.attempted(e.Submission)
	if sub.OpenTurn() != "" {
		violate("tool of %s before its turn is durable", e.Submission)
	}
	running := 0
	for _, c := range w.tools {
		if c.Submission == e.Submission {
			running++
		}
		if c.Call == e.Call {
			violate("tool %s runs twice at once", e.Call)
		}
	}
	if running >= w.limits.ToolConcurrency {
		violate("tool %s exceeds the concurrency limit", e.Call)
	}
	i := slices.IndexFunc(sub.OpenCalls(), func(c conversation.ToolCall) bool { return c.Call == e.Call })
	if i < 0 {
		violate("tool %s is not called in the log", e.Call)
	}
	c := sub.OpenCalls()[i]
	if w.ran[e.Call] && !c.Durable && c.Name != conversation.TaskTool {
		violate("tool %s runs again", e.Call)
	}
	if w.ran[e.Call] {
		w.seen["rerun"]++
	}
	w.ran[e.Call] = true
	run := &runningTool{RunTool: e, durable: c.Durable, steps: map[string]bool{}}
	for _, s := range e.Recorded {
		run.steps[s.Name] = true
	}
	for _, s := range w.durable.Recorded(e.Call) {
		if !run.steps[s.Name] {
			violate("tool %s does not get its step %s", e.Call, s.Name)
		}
	}
	for _, ended := range e.Ended {
		w.checkWaitResult(e.Call, ended.Name, ended.Value)
		run.steps["wait "+ended.Name] = true
	}
	for _, ended := range w.durable.EndedWaits(e.Call, w.durable.Head()) {
		if !run.steps["wait "+ended.Name] {
			violate("tool %s does not get the end of wait %q", e.Call, ended.Name)
		}
	}
	w.tools = append(w.tools, run)
}

func (w *world) recorded(r *conversation.StepRecorded) {
	n := 0
	for _, s := range w.durable.Recorded(r.Call) {
		if s.Name == r.Name {
			n++
		}
	}
	if n != 1 {
		violate("step %s of %s is recorded %d times, want once", r.Name, r.Call, n)
	}
}

// checkStored checks that the reference to a stored output shares the batch of the partial outcome.
func (w *world) checkStored(r *conversation.OutputStored, b conversation.Batch) {
	if !slices.ContainsFunc(b.Records, func(other conversation.Record) bool {
		done, ok := other.(*conversation.ToolSettled)
		return ok && done.Call == r.Call && !done.Failed
	}) {
		violate("output of %s is stored without its outcome", r.Call)
	}
}

func (w *world) finishResponse(e machine.FinishResponse) {
	sub := w.durable.Submission(e.Submission)
	switch {
	case !w.limits.ResponseFinishedHook || w.busy(e.Submission):
		violate("%+v while others run", e)
	case sub == nil || !sub.Running || sub.Settled || sub.OpenTurn() != "" || len(sub.OpenCalls()) > 0:
		violate("the response of %s is shown before its end is durable", e.Submission)
	}
	w.ending = &e
}

func (w *world) startDelivery(e machine.StartDelivery) {
	sub := w.attempted(e.Submission)
	if !w.limits.DeliveryStartedHook || w.busy(e.Submission) || sub.DeliveryStarted {
		violate("%+v while others run, or twice", e)
	}
	w.start = &e
}

func (w *world) showSettlement(e machine.ShowSettlement) {
	w.seen["shown"]++
	id := e.Submission.ID // the state may have dropped it
	sub := w.durable.Submission(id)
	if !w.limits.SettledHook || sub == nil || !sub.Settled || sub.Outcome != e.Outcome || w.shownSettled[id] {
		violate("got settlement %+v of %+v", e, sub)
	}
	w.shownSettled[id] = true
}

func (w *world) summarize(e machine.Summarize) {
	w.seen["summarize "+string(e.Reason)]++
	for _, j := range w.jobs {
		if w.view(j) == w.view(e) {
			violate("two summaries of %q", w.view(e))
		}
	}
	w.jobs = append(w.jobs, e)
}

func (w *world) view(e machine.Summarize) conversation.ConversationID {
	if sub := w.m.State().Submission(e.Submission); sub != nil {
		return sub.Child
	}
	return ""
}

func (w *world) cancel(gen int) {
	w.cancelTree(gen)
	w.calls = slices.DeleteFunc(w.calls, func(c *modelCall) bool {
		if c.Gen == gen {
			w.stale = append(w.stale, machine.Model{Gen: gen, Name: "demo/one", Events: []machine.ModelEvent{
				{Kind: machine.ModelText, Text: "stale"}, {Kind: machine.ModelDone, StopReason: "stop"},
			}})
		}
		return c.Gen == gen
	})
	w.tools = slices.DeleteFunc(w.tools, func(c *runningTool) bool {
		if c.Gen == gen {
			w.stale = append(w.stale, machine.ToolDone{Gen: gen, Call: c.Call}, machine.TaskCalled{Gen: gen, Call: c.Call})
		}
		return c.Gen == gen
	})
	if w.ending != nil && w.ending.Gen == gen {
		w.stale = append(w.stale, machine.ResponseFinished{Gen: gen, Metadata: json.RawMessage(`{"stale":true}`)})
		w.ending = nil
	}
	if w.start != nil && w.start.Gen == gen {
		w.stale = append(w.stale, machine.DeliveryStarted{Gen: gen})
		w.start = nil
	}
	w.jobs = slices.DeleteFunc(w.jobs, func(j machine.Summarize) bool {
		if j.Gen == gen {
			w.stale = append(w.stale, machine.Summarized{Gen: gen, Summary: "stale"})
		}
		return j.Gen == gen
	})
}

func (w *world) deliveryStarted() {
	in := machine.DeliveryStarted{Gen: w.start.Gen, State: w.writes()}
	if w.chance(10) {
		in.Err = &conversation.SettlementError{Type: conversation.CodeInternal, Message: "not started"}
	}
	w.start = nil
	w.stale = append(w.stale, in)
	w.note("delivery started gen=%d failed=%v", in.Gen, in.Err != nil)
	w.do(in)
}

func (w *world) writes() []machine.StateWrite {
	if w.chance(60) {
		return nil
	}
	w.serial++
	return []machine.StateWrite{{Key: "n", Value: json.RawMessage(fmt.Sprint(w.serial))}}
}

func (w *world) summarized() {
	i := w.r.IntN(len(w.jobs))
	e := w.jobs[i]
	w.jobs = slices.Delete(w.jobs, i, i+1)
	in := machine.Summarized{Gen: e.Gen, Summary: "so far", Before: 1}
	switch {
	case w.chance(15):
		in.Nothing = true
	case w.chance(15):
		in.Err = conversation.Unavailable(0, nil)
	}
	w.stale = append(w.stale, in)
	w.note("summarized gen=%d nothing=%v failed=%v", in.Gen, in.Nothing, in.Err != nil)
	w.do(in)
}

func (w *world) compact() {
	w.caller++
	in := machine.Compact{To: w.caller}
	w.callers[in.To] = in
	w.note("compact %d", in.To)
	w.do(in)
}

// useTool lets a call record a step, start a task, or end.
func (w *world) useTool() {
	i := w.r.IntN(len(w.tools))
	c := w.tools[i]
	if c.asks != 0 { // it waits for its step
		return
	}
	if c.storing != nil {
		w.storedLate(i)
		return
	}
	if c.waits != nil {
		w.suspendWaiting(i)
		return
	}
	if name := w.waitName(); c.durable && !c.steps["wait "+name] && w.chance(25) {
		w.waitFor(c, machine.WaitFor{Name: name})
		return
	}
	if w.chance(15) {
		w.postTo(c)
		return
	}
	if c.durable && w.chance(40) {
		w.takeStep(c)
		return
	}
	if c.durable && w.chance(35) {
		w.suspend(i)
		return
	}
	w.tools = slices.Delete(w.tools, i, i+1)
	if c.Name == conversation.TaskTool && w.chance(80) {
		in := machine.TaskCalled{Gen: c.Gen, Call: c.Call, Agent: "helper", Prompt: "ReadTail it up."}
		w.stale = append(w.stale, in)
		w.note("task %s", c.Call)
		w.do(in)
		return
	}
	in := machine.ToolDone{
		Gen: c.Gen, Call: c.Call, Output: json.RawMessage(`[1]`), Duration: 1000000, State: w.writes(), Terminate: w.chance(20),
	}
	if w.chance(20) {
		in.Failed, in.ErrorText = true, "broken"
	}
	if w.big && w.chance(80) {
		in.Output = json.RawMessage(`"` + strings.Repeat("x", 30_000+w.r.IntN(10_000)) + `"`)
	} else if w.chance(20) {
		in.Output = json.RawMessage(`"` + strings.Repeat("x", w.r.IntN(3000)) + `"`)
	}
	if w.chance(10) {
		in.Images = []conversation.Attachment{{SHA256: "00ff", MimeType: "image/png", Size: 2}}
	}
	if c.Room > 0 && !w.big && w.chance(20) {
		in.Stored = &conversation.StoredOutput{Size: 1 << 20, Head: "a", Tail: "z", Pieces: []conversation.StoredPiece{{SHA256: "00ff", Size: 1 << 20}}}
	}
	w.stale = append(w.stale, in)
	w.note("tool %s failed=%v", c.Call, in.Failed)
	w.do(in)
}

// storeOutput starts storing an output unless it is being stored: a stale outcome repeats the request.
func (w *world) storeOutput(e machine.StoreOutput) {
	w.seen["output stored late"]++
	if !slices.ContainsFunc(w.tools, func(c *runningTool) bool { return c.Call == e.Done.Call }) {
		w.tools = append(w.tools, &runningTool{
			RunTool: machine.RunTool{Gen: e.Done.Gen, Submission: e.Submission, Call: e.Done.Call, Room: e.Room}, storing: &e.Done,
		})
	}
}

func (w *world) storedLate(i int) {
	in := *w.tools[i].storing
	w.tools = slices.Delete(w.tools, i, i+1)
	if w.chance(20) {
		in.Output, in.Failed, in.ErrorText = nil, true, "not stored"
	} else {
		in.Stored = &conversation.StoredOutput{Size: int64(len(in.Output)), Head: "a", Tail: "z", Pieces: []conversation.StoredPiece{{SHA256: "00ff", Size: 1}}}
		in.Output = json.RawMessage(`"part"`)
	}
	w.stale = append(w.stale, in)
	w.note("output of %s stored failed=%v", in.Call, in.Failed)
	w.do(in)
}

func (w *world) takeStep(c *runningTool) {
	name := fmt.Sprintf("s%d", w.r.IntN(3))
	if c.steps[name] {
		return
	}
	w.caller++
	in := machine.StepDone{To: w.caller, Gen: c.Gen, Call: c.Call, Name: name, Output: json.RawMessage(`1`)}
	w.callers[in.To] = in
	c.asks, c.asked = in.To, name
	w.note("step %s of %s", name, c.Call)
	w.do(in)
}

func (w *world) kept(to machine.ReplyID, asked machine.StepDone) {
	if !slices.ContainsFunc(w.durable.Recorded(asked.Call), func(s conversation.StepRecorded) bool { return s.Name == asked.Name }) &&
		w.durable.Exists() && w.m.State().Recorded(asked.Call) != nil {
		violate("step %s of %s is acknowledged but not durable", asked.Name, asked.Call)
	}
	w.stepped(to, true)
}

func (w *world) stepped(to machine.ReplyID, kept bool) {
	for _, c := range w.tools {
		if c.asks == to {
			c.asks, c.steps[c.asked] = 0, kept
		}
	}
}

// ofRun turns an admission into one for the run: a signal, or the start, perhaps with another input.
func (w *world) ofRun(a conversation.Admission) conversation.Admission {
	if a.Delivery.Kind == conversation.KindSignal {
		a.Address = conversation.RunAddress(conversation.RunFor(workflow, "k"))
		return a
	}
	input := `{"n":1}`
	if w.chance(20) {
		input = `{"n":2}`
	}
	run := runOf(input)
	run.ReplyTo, run.Notify = a.ReplyTo, a.Notify
	return run
}

func (w *world) verifyRun() {
	if w.limits.Function == "" || !w.durable.Exists() {
		return
	}
	run := w.durable.Run()
	if run == nil || run.Outcome == "" {
		violate("unexpected end of the run: %+v", run)
	}
	w.seen["run_started"]++
	w.seen["run "+string(run.Outcome)]++
	if (run.Output != nil) != (run.Outcome == conversation.OutcomeCompleted) || (run.Error != nil) == (run.Outcome == conversation.OutcomeCompleted) {
		violate("run outcome %s with output %s and error %+v", run.Outcome, run.Output, run.Error)
	}
	begun := 0
	for _, e := range w.log {
		for _, r := range e.batch.Records {
			if a, ok := r.(*conversation.SubmissionAdmitted); ok && a.Delivery.Kind != conversation.KindSignal {
				begun++
			}
		}
	}
	if begun != 1 {
		violate("%d runs in one log, want 1", begun)
	}
}
