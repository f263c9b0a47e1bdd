package machine

import (
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Model calls are repeated, for failures that may pass, at most maxRetries times
// each. A vendor that asks for more patience than maxRetryAfter gets no more. A model
// that reaches its limit in the middle of a call may try so often again. While it cannot
// be asked at all, nothing but the pause between repetitions is bounded.
const (
	maxRetries    = 3
	maxRetryAfter = time.Minute
	maxCutOff     = 3
	maxUnasked    = 10
)

// stopLength is the stop reason of a step that ended at the model's limit.
const stopLength = "length"

// stopError is the stop reason of a step that broke off for good.
const stopError = "error"

// callModel asks for the next model call of a run.
func (m *Machine) callModel(r *run) {
	r.step++
	r.retries, r.unasked, r.compacted, r.repeated = 0, 0, false, 0
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
		Attempt: m.state.Submission(m.run.submission).Attempts, Step: r.step, Fallback: r.fallback,
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
	m.enqueue(true, append(with, started)...)
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

// modelFailed repeats a call that may succeed later, asks another model, or has the
// context shortened; otherwise the run fails. What a repeated call has said already
// is withdrawn.
func (m *Machine) modelFailed(r *run, name string, e ModelEvent) {
	switch {
	case e.TooManyCalls:
		m.openResponse(r, name)
		m.tooManyCalls(r)
	case e.Overflow && !r.compacted:
		m.withdraw(r, e)
		m.compactRun(r, e.Err)
	case e.Unasked:
		m.repeat(r, e, min(m.retryPause(r.unasked), maxRetryAfter))
		r.unasked = min(r.unasked+1, maxUnasked)
	case e.Retry && r.retries < maxRetries:
		m.repeat(r, e, max(m.retryPause(r.retries), min(e.RetryAfter, maxRetryAfter)))
		r.retries++
	case e.Fallback:
		m.withdraw(r, e)
		r.fallback++
		r.retries = 0
		r.repeated++
		m.startCall(r)
	default:
		if r.opened {
			m.completeStep(r, ModelEvent{StopReason: stopError})
		} else {
			r.unheard = &conversation.FailedCall{Turn: r.turn, Model: name, Facts: r.facts, DurationMs: m.askedMs(r), Retries: r.repeated}
		}
		m.skip(r, m.sub(r).OpenCalls(), toolNotStarted)
		m.fail(r, e.Err)
	}
}

// repeat makes a model call again after a pause.
func (m *Machine) repeat(r *run, e ModelEvent, after time.Duration) {
	m.withdraw(r, e)
	r.phase = phaseRetry
	r.repeated++
	m.emit(SetTimer{Timer: TimerRetry, Gen: r.gen, After: after})
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

// retryPause doubles with every repetition and is shortened by up to half, so that
// the callers of a vendor that was down do not come back together.
func (m *Machine) retryPause(times int) time.Duration {
	pause := m.cfg.RetryPause << times
	return pause - pause*time.Duration(m.env.Seed[0])/512
}

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
