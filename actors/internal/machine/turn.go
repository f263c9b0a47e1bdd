package machine

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// maxCutOff is how often a model that reaches its length limit in a call may try again.
const maxCutOff = 3

// stopLength is the stop reason of a turn that reached the model's length limit.
const stopLength = "length"

// stopWithheld is the stop reason of a turn that the vendor partly withheld.
const stopWithheld = "content_filter"

// stopError is the stop reason of a turn that failed permanently.
const stopError = "error"

func (m *Machine) callModel(w *work) {
	w.turns++
	w.tries, w.compacted, w.repeated = tries{}, false, 0
	m.startCall(w)
}

// startCall starts a model call, the first try or a repetition.
func (m *Machine) startCall(w *work) {
	if m.askTree(w, false) {
		return
	}
	w.phase, w.opened, w.asked, w.wait = phaseModel, false, m.env.Mono, 0
	w.responseBytes, w.partKind, w.calls = m.sub(w).OutputBytes(), ModelDone, 0
	w.facts, w.emitted = conversation.CallFacts{}, false
	if !m.withinLimits(w) {
		return
	}
	w.turn, w.emitted = conversation.TurnID(m.ids.next("turn_")), true
	m.emit(CallModel{
		Gen: m.newGen(w), Submission: w.submission, Turn: w.turn,
		Attempt: m.state.Submission(m.work.submission).Attempts, Number: w.turns, Avoid: slices.Concat(w.failedModels, w.tries.failed), Without: w.omitted.images,
	})
}

// model records events of the call under way. Events of an earlier call are ignored.
func (m *Machine) model(in Model) {
	for _, e := range in.Events {
		m.pending.grouped = false
		w := m.workOf(in.Gen)
		if w == nil {
			return
		}
		switch {
		case e.Kind == ModelData:
			m.data(w, e)
		case w.phase == phaseModel:
			w.facts, w.passed = in.Facts, in.Passed
			m.modelEvent(w, in.Name, e)
		}
	}
}

// data records client data of a tool or a hook. Subagents have none.
func (m *Machine) data(w *work, e ModelEvent) {
	if w.child == "" && (w.phase == phaseTools || w.phase == phaseFinishResponse) {
		m.enqueue(false, &conversation.DataWritten{Message: m.sub(w).Message, Name: e.Name, Data: e.Input})
	}
}

func (m *Machine) modelEvent(w *work, name string, e ModelEvent) {
	switch e.Kind {
	case ModelFailed:
		m.modelFailed(w, name, e)
		return
	case ModelMetadata:
		w.metadata, w.written = e.Input, append(w.written, e.State...)
		return
	}
	id := m.openResponse(w, name)
	switch e.Kind {
	case ModelText:
		m.recordText(w, id, conversation.PartText, e)
	case ModelReasoning:
		m.recordText(w, id, conversation.PartReasoning, e)
	case ModelSignature:
		m.sign(w, id, e)
	case ModelCall:
		w.partKind = ModelCall
		if w.calls++; w.calls > m.limits().MaxCalls {
			m.tooManyCalls(w)
			return
		}
		if !m.mayCall(w, len(e.Input)) {
			return
		}
		m.called(w, id, e)
	case ModelDone:
		m.modelDone(w, e)
	}
}

// openResponse records the start of the turn once and returns the id of the response.
func (m *Machine) openResponse(w *work, model string) conversation.MessageID {
	sub := m.sub(w)
	if w.opened {
		return sub.Message
	}
	var with []conversation.Record
	w.wait = m.askedMs(w)
	started := &conversation.ResponseStarted{
		Message: sub.Message, Submission: sub.ID, Child: w.child, Turn: w.turn, Model: model, WaitMs: w.wait, At: m.env.Wall,
	}
	if started.Message == "" {
		started.Message = conversation.MessageID(m.ids.next("msg_"))
		started.Metadata, with = w.metadata, stateRecords(w.written)
	}
	w.opened = true
	m.reportFallback(w, model)
	m.enqueue(true, append(append(with, m.omittedRecord(w, model)...), started)...)
	return started.Message
}

func (m *Machine) modelDone(w *work, e ModelEvent) {
	m.completeTurn(w, e)
	w.reminder = e.Reminder
	calls := m.sub(w).OpenCalls()
	if e.Full && (w.child == "" || len(calls) > 0) { // the view ends with a task, except for a reminder
		m.compactSoon(w)
	}
	if len(calls) == 0 {
		m.ended(w)
		return
	}
	if e.StopReason != stopLength {
		w.cutOff = 0
		w.phase, w.at = phaseCalling, m.nextOffset()
		return
	}
	// The reply is incomplete.
	m.skip(w, calls, toolCutOff)
	if w.cutOff++; w.cutOff > maxCutOff {
		m.fail(w, failure(conversation.CodeModelFailed, textCutOff, map[string]any{"reason": stopLength}))
		return
	}
	m.callModel(w)
}

func (m *Machine) skip(w *work, calls []conversation.ToolCall, text string) {
	for _, c := range calls {
		m.enqueue(true, &conversation.ToolSettled{
			Call: c.Call, Child: w.child, Failed: true, ErrorText: text, ElapsedMs: m.elapsed(), At: m.env.Wall,
		})
	}
}

func (m *Machine) ended(w *work) {
	if w.child == "" && m.limits().ResponseFinishedHook {
		w.phase, w.at = phaseEnding, m.nextOffset()
		return
	}
	m.finish(w)
}

func (m *Machine) withdraw(w *work, e ModelEvent) {
	if w.opened {
		m.enqueue(true, &conversation.StepDropped{
			Message: m.sub(w).Message, Child: w.child, Turn: w.turn, Facts: w.facts, Reason: reasonOf(e.Err),
			DurationMs: m.askedMs(w), Retries: w.repeated, At: m.env.Wall,
		})
		w.opened = false
		return
	}
	m.reportUnrecorded(w, true, reasonOf(e.Err))
}

// reportUnrecorded reports the end of a model call without a record.
func (m *Machine) reportUnrecorded(w *work, repeated bool, reason string) {
	m.emit(CallUnrecorded{Gen: w.gen, Repeated: repeated, Reason: reason, DurationMs: m.askedMs(w), Retries: w.repeated})
}

func reasonOf(err *conversation.SettlementError) string {
	if err == nil {
		return ""
	}
	if reason, ok := err.Meta["reason"].(string); ok {
		return reason
	}
	return string(err.Type)
}

// askedMs returns the milliseconds since the model call was requested.
func (m *Machine) askedMs(w *work) int64 { return int64((m.env.Mono - w.asked) / time.Millisecond) }

func (m *Machine) completeTurn(w *work, e ModelEvent) {
	if e.Kind != ModelDone { // the reply is incomplete
		e.Facts = w.facts
	}
	m.enqueue(true, &conversation.StepCompleted{
		Message: m.sub(w).Message, Child: w.child, Turn: w.turn, StopReason: e.StopReason, Usage: e.Usage, Facts: e.Facts,
		DurationMs: m.askedMs(w), WaitMs: w.wait, Retries: w.repeated, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
}

func (m *Machine) fail(w *work, err *conversation.SettlementError) {
	if w.child != "" {
		m.endTask(w, conversation.OutcomeFailed)
		return
	}
	m.settle(m.sub(w), conversation.OutcomeFailed, err)
}
