package machine

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// maxCutOff is how often a model that reaches its limit in the middle of a call may try again.
const maxCutOff = 3

// stopLength is the stop reason of a step that ended at the model's limit.
const stopLength = "length"

// stopError is the stop reason of a step that broke off for good.
const stopError = "error"

// callModel asks for the next model call of a run.
func (m *Machine) callModel(r *run) {
	r.step++
	r.tries, r.compacted, r.repeated = tries{}, false, 0
	m.startCall(r)
}

// startCall asks for a model call, the first or a repetition.
func (m *Machine) startCall(r *run) {
	r.phase, r.opened, r.asked, r.wait = phaseModel, false, m.env.Mono, 0
	r.said, r.speaks, r.calls, r.signed = m.sub(r).Said(), ModelDone, 0, 0
	r.facts = conversation.CallFacts{}
	if !m.mayAsk(r) {
		return
	}
	r.turn = conversation.TurnID(m.ids.next("turn_"))
	m.emit(CallModel{
		Gen: m.newGen(r), Submission: r.submission, Turn: r.turn,
		Attempt: m.state.Submission(m.run.submission).Attempts, Step: r.step, Avoid: slices.Concat(r.lost, r.tries.failed), Without: r.bare.images,
	})
}

// model records events of a call under way; those of an earlier one are late and
// ignored.
func (m *Machine) model(in Model) {
	for _, e := range in.Events {
		m.pending.grouped = false
		r := m.runOf(in.Gen)
		if r == nil {
			return
		}
		switch {
		case e.Kind == ModelData:
			m.data(r, e)
		case r.phase == phaseModel:
			r.facts = in.Facts
			m.modelEvent(r, in.Name, e)
		}
	}
}

// data records what a tool or a hook writes for clients. A subagent has none.
func (m *Machine) data(r *run, e ModelEvent) {
	if r.child == "" && (r.phase == phaseTools || r.phase == phaseFinish) {
		m.enqueue(false, &conversation.DataWritten{Message: m.sub(r).Message, Name: e.Name, Data: e.Input})
	}
}

func (m *Machine) modelEvent(r *run, name string, e ModelEvent) {
	switch e.Kind {
	case ModelFailed:
		m.modelFailed(r, name, e)
		return
	case ModelMetadata:
		r.metadata, r.written = e.Input, append(r.written, e.State...)
		return
	}
	id := m.openResponse(r, name)
	switch e.Kind {
	case ModelText:
		r.signed = 0
		m.speak(r, id, conversation.PartText, e)
	case ModelReasoning:
		m.speak(r, id, conversation.PartReasoning, e)
	case ModelSignature:
		m.sign(r, id, e)
	case ModelCall:
		r.speaks = ModelCall
		if r.calls++; r.calls > m.limits().MaxCalls {
			m.tooManyCalls(r)
			return
		}
		if !m.mayCall(r, len(e.Input)) {
			return
		}
		m.called(r, id, e)
	case ModelDone:
		m.modelDone(r, e)
	}
}

// openResponse records the start of the turn once and returns the response's id.
func (m *Machine) openResponse(r *run, model string) conversation.MessageID {
	sub := m.sub(r)
	if r.opened {
		return sub.Message
	}
	var with []conversation.Record
	r.wait = m.askedMs(r)
	started := &conversation.ResponseStarted{
		Message: sub.Message, Submission: sub.ID, Child: r.child, Turn: r.turn, Model: model, WaitMs: r.wait, At: m.env.Wall,
	}
	if started.Message == "" {
		started.Message = conversation.MessageID(m.ids.next("msg_"))
		started.Metadata, with = r.metadata, stateRecords(r.written)
	}
	r.opened = true
	m.enqueue(true, append(append(with, m.tookWithout(r, model)...), started)...)
	return started.Message
}

func (m *Machine) modelDone(r *run, e ModelEvent) {
	m.completeStep(r, e)
	calls := m.sub(r).OpenCalls()
	if e.Full && (r.child == "" || len(calls) > 0) { // nothing follows the end of a task
		m.compactSoon(r)
	}
	if len(calls) == 0 {
		m.ended(r)
		return
	}
	if e.StopReason != stopLength {
		r.cutOff = 0
		r.phase, r.at = phaseCalling, m.nextOffset()
		return
	}
	// What the model wanted to say is not all there.
	m.skip(r, calls, toolCutOff)
	if r.cutOff++; r.cutOff > maxCutOff {
		m.fail(r, failure(conversation.CodeModelFailed, sayCutOff, map[string]any{"reason": stopLength}))
		return
	}
	m.callModel(r)
}

// skip gives calls that did not run their outcome.
func (m *Machine) skip(r *run, calls []conversation.ToolCall, text string) {
	for _, c := range calls {
		m.enqueue(true, &conversation.ToolSettled{
			Call: c.Call, Child: r.child, Failed: true, ErrorText: text, ElapsedMs: m.elapsed(), At: m.env.Wall,
		})
	}
}

// ended is the end of a response as the model sees it.
func (m *Machine) ended(r *run) {
	if r.child == "" && m.limits().FinishHook {
		r.phase, r.at = phaseEnding, m.nextOffset()
		return
	}
	m.finish(r)
}

// withdraw takes back what the model call under way has said.
func (m *Machine) withdraw(r *run, e ModelEvent) {
	if r.opened {
		m.enqueue(true, &conversation.StepDropped{
			Message: m.sub(r).Message, Child: r.child, Turn: r.turn, Facts: r.facts, Reason: reasonOf(e.Err),
			DurationMs: m.askedMs(r), Retries: r.repeated, At: m.env.Wall,
		})
		r.opened = false
	}
}

// reasonOf is the kind of failure that an error tells of.
func reasonOf(err *conversation.SettlementError) string {
	if err == nil {
		return ""
	}
	if reason, ok := err.Meta["reason"].(string); ok {
		return reason
	}
	return string(err.Type)
}

// askedMs is how long ago the model call of a run was asked for, in milliseconds.
func (m *Machine) askedMs(r *run) int64 { return int64((m.env.Mono - r.asked) / time.Millisecond) }

func (m *Machine) completeStep(r *run, e ModelEvent) {
	if e.Kind != ModelDone { // the reply ends before its end
		e.Facts = r.facts
	}
	m.enqueue(true, &conversation.StepCompleted{
		Message: m.sub(r).Message, Child: r.child, Turn: r.turn, StopReason: e.StopReason, Usage: e.Usage, Facts: e.Facts,
		DurationMs: m.askedMs(r), WaitMs: r.wait, Retries: r.repeated, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
}

// fail ends a run whose model gave no answer.
func (m *Machine) fail(r *run, err *conversation.SettlementError) {
	if r.child != "" {
		m.endTask(r, conversation.OutcomeFailed)
		return
	}
	m.settle(m.sub(r), conversation.OutcomeFailed, err)
}
