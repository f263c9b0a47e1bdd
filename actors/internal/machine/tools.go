package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// runTools starts the open calls of a run; their records are durable.
func (m *Machine) runTools(r *run) {
	r.phase = phaseTools
	if r.gen == 0 || r.turn == "" { // no model call of this attempt has begun anything
		m.newGen(r)
		last, _ := m.sub(r).LastStep()
		r.turn = last.Turn
	}
	r.waiting, r.running, r.parked = m.sub(r).OpenCalls(), 0, nil
	m.startTools(r)
}

// startTools starts waiting calls, in call order, as far as the bound allows, and while
// there is room for what they bring.
func (m *Machine) startTools(r *run) {
	for len(r.waiting) > 0 && r.running < m.limits().ToolConcurrency && !m.Full() {
		c := r.waiting[0]
		r.waiting, r.running = r.waiting[1:], r.running+1
		if c.Name == conversation.TaskTool && m.resumeTask(c) {
			continue
		}
		m.runTool(r, c)
	}
}

// startWaiting starts calls for which there was no room.
func (m *Machine) startWaiting() {
	for r := range m.runs() {
		if r.phase == phaseTools && len(r.waiting) > 0 {
			m.startTools(r)
		}
	}
}

func (m *Machine) runTool(r *run, c conversation.ToolCall) {
	m.emit(RunTool{
		Gen: r.gen, Submission: r.submission, Turn: r.turn, Call: c.Call, Name: c.Name, Input: c.Input,
		Recorded: m.state.Recorded(c.Call),
	})
}

func (m *Machine) toolDone(in ToolDone) {
	r := m.runOf(in.Gen)
	if r == nil || r.phase != phaseTools || !m.running(r, in.Call) {
		return
	}
	ms := int64(in.Duration / time.Millisecond)
	done := &conversation.ToolSettled{
		Call: in.Call, Child: r.child, Output: in.Output, Attachments: m.named(in.Images), Terminate: in.Terminate,
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
	state := in.State
	if size := stored(append(stateRecords(state), done)); size > m.cfg.MaxBatchBytes {
		done.Output, done.Attachments, done.Terminate, state = nil, nil, false, nil
		done.Failed, done.ErrorText = true, fmt.Sprintf(toolTooLarge, size, m.cfg.MaxBatchBytes)
	}
	m.outcome(r, state, done)
}

// outcome records the outcome of a call, in one batch with what belongs to it.
func (m *Machine) outcome(r *run, state []StateWrite, done *conversation.ToolSettled, with ...conversation.Record) {
	m.fit(r, done)
	m.enqueue(true, append(append(stateRecords(state), with...), done)...)
	r.running--
	m.startTools(r)
	if r.running > 0 || len(r.waiting) > 0 {
		return
	}
	if last, _ := m.sub(r).LastStep(); ends(last) {
		m.ended(r)
		return
	}
	m.callModel(r)
}

func stateRecords(state []StateWrite) []conversation.Record {
	var out []conversation.Record
	for _, w := range state {
		out = append(out, &conversation.StateWritten{Key: w.Key, Value: w.Value})
	}
	return out
}

// named gives attachments that have none their ids.
func (m *Machine) named(list []conversation.Attachment) []conversation.Attachment {
	list = slices.Clone(list)
	for i := range list {
		if list[i].ID == "" {
			list[i].ID = conversation.AttachmentID(m.ids.next("att_"))
		}
	}
	return list
}

// stepDone records the result of a durable tool's step.
func (m *Machine) stepDone(in StepDone) {
	r := m.runOf(in.Gen)
	if r == nil || r.phase != phaseTools || !m.running(r, in.Call) {
		m.emit(Reply{in.To, Moved{}})
		return
	}
	if m.state.Brought(r.submission)+len(in.Output) > m.limits().MaxBrought {
		m.emit(Reply{in.To, StepTooMuch{}})
		return
	}
	m.enqueue(true, &conversation.StepRecorded{Call: in.Call, Name: in.Name, Output: in.Output})
	m.reply(in.To, StepKept{}, false)
}

// owed reports whether a call of a run has no outcome yet.
func (m *Machine) owed(r *run, id conversation.CallID) bool {
	return slices.ContainsFunc(m.sub(r).OpenCalls(), func(c conversation.ToolCall) bool { return c.Call == id })
}
