package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// runTools starts the open calls of a turn, whose records are durable.
func (m *Machine) runTools(w *work) {
	w.phase, w.resumed = phaseTools, false
	if w.gen == 0 || w.turn == "" { // the calls are of an earlier attempt
		m.newGen(w)
		last, _ := m.sub(w).LastTurn()
		w.turn, w.resumed = last.ID, true
	}
	w.waiting, w.running, w.suspended, w.knownEnds = m.sub(w).OpenCalls(), 0, nil, nil
	m.startTools(w)
}

// startTools starts waiting calls in order, up to ToolConcurrency and while there is room for their
// outcomes.
func (m *Machine) startTools(w *work) {
	for len(w.waiting) > 0 && w.running < m.limits().ToolConcurrency && !m.Full() {
		c := w.waiting[0]
		w.waiting, w.running = w.waiting[1:], w.running+1
		if c.Name == conversation.TaskTool && m.resumeTask(c) {
			continue
		}
		m.runTool(w, c, w.resumed)
	}
}

func (m *Machine) startWaiting() {
	for w := range m.allWork() {
		if w.phase == phaseTools && len(w.waiting) > 0 {
			m.startTools(w)
		}
	}
}

func (m *Machine) runTool(w *work, c conversation.ToolCall, resumed bool) {
	ended := m.state.EndedWaits(c.Call, m.durable)
	m.emit(RunTool{
		Gen: w.gen, Submission: w.submission, Turn: w.turn, Call: c.Call, Name: c.Name, Input: c.Input,
		Recorded: m.state.Recorded(c.Call), Ended: ended, Room: m.outputRoom(w),
		Resumed: resumed && c.Durable,
	})
	m.noteKnownEnds(w, c.Call, len(ended))
}

func (m *Machine) toolDone(in ToolDone) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTools || !m.running(w, in.Call) {
		return
	}
	ms := int64(in.Duration / time.Millisecond)
	done := &conversation.ToolSettled{
		Call: in.Call, Child: w.child, Output: in.Output, Attachments: m.named(in.Images), Terminate: in.Terminate,
		Failed: in.Failed, ErrorText: in.ErrorText, DurationMs: &ms, ElapsedMs: m.elapsed(), At: m.env.Wall,
	}
	if in.NotRun {
		done.DurationMs = nil
	}
	switch {
	case in.Failed:
		done.Output, done.Attachments, done.Terminate = nil, nil, false
	case len(done.Output) == 0:
		done.Output = nullOutput
	}
	if m.storesOutput(w, in, done) {
		return
	}
	state, with := in.State, m.storedOutput(w, in, done)
	if size := stored(slices.Concat(stateRecords(state), with, []conversation.Record{done})); size > m.cfg.MaxBatchBytes {
		state, with = nil, nil
		leaveOutput(done, fmt.Sprintf(toolTooLarge, size, m.cfg.MaxBatchBytes))
	}
	m.outcome(w, state, done, with...)
}

// leaveOutput replaces an output by an error text for the model.
func leaveOutput(done *conversation.ToolSettled, text string) {
	done.Output, done.Attachments, done.Terminate = nil, nil, false
	done.Failed, done.ErrorText = true, text
}

// outcome records the outcome of a call in one batch with its related records, and continues the work.
func (m *Machine) outcome(w *work, state []StateWrite, done *conversation.ToolSettled, with ...conversation.Record) {
	m.fitOutcome(w, done, nil)
	m.enqueue(true, append(append(stateRecords(state), with...), done)...)
	w.running--
	m.startTools(w)
	if w.running > 0 || len(w.waiting) > 0 {
		return
	}
	if m.limits().Function != "" {
		m.returned(w, done)
		return
	}
	if last, _ := m.sub(w).LastTurn(); ends(last) {
		m.ended(w)
		return
	}
	m.callModel(w)
}

func stateRecords(state []StateWrite) []conversation.Record {
	var out []conversation.Record
	for _, w := range state {
		out = append(out, &conversation.StateWritten{Key: w.Key, Value: w.Value})
	}
	return out
}

func (m *Machine) named(list []conversation.Attachment) []conversation.Attachment {
	list = slices.Clone(list)
	for i := range list {
		if list[i].ID == "" {
			list[i].ID = conversation.AttachmentID(m.ids.next("att_"))
		}
	}
	return list
}

func (m *Machine) stepDone(in StepDone) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseTools || !m.running(w, in.Call) {
		m.emit(Reply{in.To, Moved{}})
		return
	}
	if m.state.CallBytes(w.submission)+len(in.Output) > m.limits().MaxCallBytes {
		m.emit(Reply{in.To, StepTooMuch{}})
		return
	}
	m.enqueue(true, &conversation.StepRecorded{Call: in.Call, Name: in.Name, Output: in.Output})
	m.reply(in.To, StepKept{}, false)
}

func (m *Machine) isOpen(w *work, id conversation.CallID) bool {
	return slices.ContainsFunc(m.sub(w).OpenCalls(), func(c conversation.ToolCall) bool { return c.Call == id })
}
