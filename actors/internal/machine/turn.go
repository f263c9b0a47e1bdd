package machine

import (
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Model calls are repeated, for failures that may pass, at most maxRetries times
// each. A vendor that asks for more patience than maxRetryAfter gets no more.
const (
	maxRetries    = 3
	maxRetryAfter = time.Minute
)

// callModel asks for the next model call of the run.
func (m *Machine) callModel() {
	m.run.step++
	m.run.retries = 0
	m.startCall()
}

// startCall asks for a model call, the first or a repetition.
func (m *Machine) startCall() {
	m.gen++
	r := m.run
	r.phase, r.opened = phaseModel, false
	r.turn = conversation.TurnID(m.ids.next("turn_"))
	m.emit(CallModel{
		Gen: m.gen, Submission: r.submission, Turn: r.turn,
		Attempt: m.state.Submission(r.submission).Attempts, Step: r.step,
	})
}

// model records events of the call under way; those of an earlier one are late
// and ignored.
func (m *Machine) model(in Model) {
	for _, e := range in.Events {
		if m.run == nil || in.Gen != m.gen {
			return
		}
		switch {
		case e.Kind == ModelData:
			m.data(e)
		case m.run.phase == phaseModel:
			m.modelEvent(in.Name, e)
		}
	}
}

// data records what a tool or a hook writes for clients.
func (m *Machine) data(e ModelEvent) {
	if m.run.phase == phaseTools || m.run.phase == phaseFinish {
		id := m.state.Submission(m.run.submission).Message
		m.enqueue(false, &conversation.DataWritten{Message: id, Name: e.Name, Data: e.Input})
	}
}

func (m *Machine) modelEvent(name string, e ModelEvent) {
	switch e.Kind {
	case ModelFailed:
		m.modelFailed(e)
		return
	case ModelMetadata:
		m.run.metadata = e.Input
		return
	}
	id := m.openResponse(name)
	switch e.Kind {
	case ModelText, ModelReasoning:
		kind := conversation.PartText
		if e.Kind == ModelReasoning {
			kind = conversation.PartReasoning
		}
		if e.Text != "" {
			m.enqueueDelta(id, kind, e.Text)
		}
	case ModelSignature:
		if !m.reasoned() {
			return
		}
		m.enqueue(false, &conversation.PartDone{Message: id, Signature: e.Text})
	case ModelCall:
		m.enqueue(true, &conversation.ToolCalled{
			Message: id, Call: conversation.CallID(m.ids.next("call_")), ProviderCall: e.ProviderCall,
			Name: e.Name, Input: e.Input, At: m.env.Wall,
		})
	case ModelDone:
		m.modelDone(id, e)
	}
}

// openResponse records the start of the turn once and returns the response's id.
func (m *Machine) openResponse(model string) conversation.MessageID {
	sub := m.state.Submission(m.run.submission)
	if m.run.opened {
		return sub.Message
	}
	started := &conversation.ResponseStarted{
		Message: sub.Message, Submission: sub.ID, Turn: m.run.turn, Model: model, At: m.env.Wall,
	}
	if started.Message == "" {
		started.Message = conversation.MessageID(m.ids.next("msg_"))
		started.Metadata = m.run.metadata
	}
	m.run.opened = true
	m.enqueue(true, started)
	return started.Message
}

// reasoned reports whether the step under way has a reasoning part to sign.
func (m *Machine) reasoned() bool {
	steps := m.state.Submission(m.run.submission).Steps()
	for _, p := range steps[len(steps)-1].Parts {
		if p.Kind == conversation.PartReasoning {
			return true
		}
	}
	return false
}

func (m *Machine) modelDone(id conversation.MessageID, e ModelEvent) {
	m.completeStep(id, e.StopReason, e.Usage)
	sub := m.state.Submission(m.run.submission)
	switch {
	case len(sub.OpenCalls()) > 0:
		m.run.phase, m.run.at = phaseCalling, m.nextOffset()
	case m.limits().FinishHook:
		m.run.phase, m.run.at = phaseEnding, m.nextOffset()
	default:
		m.settle(sub, conversation.OutcomeCompleted, nil)
	}
}

// proceed begins the work of an attempt. A response that an earlier attempt has
// brought to its end is not continued.
func (m *Machine) proceed() {
	if answered(m.state.Submission(m.run.submission)) {
		m.finish()
		return
	}
	m.callModel()
}

// answered reports whether the model has ended the response of a submission, so
// that only the author's look at it is missing.
func answered(sub *conversation.Submission) bool {
	steps := sub.Steps()
	if len(steps) == 0 {
		return false
	}
	last := steps[len(steps)-1]
	called := slices.ContainsFunc(last.Parts, func(p conversation.StepPart) bool { return p.Tool != nil })
	return last.Note == "" && last.Completed && last.StopReason != conversation.ReasonInterrupted && !called
}

// finish shows the complete response to its author, if they want to see it.
func (m *Machine) finish() {
	r := m.run
	sub := m.state.Submission(r.submission)
	if !m.limits().FinishHook {
		m.settle(sub, conversation.OutcomeCompleted, nil)
		return
	}
	m.gen++
	r.phase = phaseFinish
	steps := sub.Steps()
	m.emit(FinishResponse{
		Gen: m.gen, Submission: r.submission, Turn: steps[len(steps)-1].Turn, Attempt: sub.Attempts, Step: r.step,
	})
}

func (m *Machine) responseFinished(in ResponseFinished) {
	if m.run == nil || in.Gen != m.gen || m.run.phase != phaseFinish {
		return
	}
	sub := m.state.Submission(m.run.submission)
	if in.Metadata != nil {
		m.enqueue(true, &conversation.MetadataMerged{Message: sub.Message, Metadata: in.Metadata})
	}
	m.settle(sub, conversation.OutcomeCompleted, nil)
}

// modelFailed repeats a call that may succeed later, and settles otherwise. What a
// repeated call has said already is withdrawn.
func (m *Machine) modelFailed(e ModelEvent) {
	sub := m.state.Submission(m.run.submission)
	if e.Retry && m.run.retries < maxRetries {
		if m.run.opened {
			m.enqueue(true, &conversation.StepDropped{Message: sub.Message, Turn: m.run.turn})
		}
		m.gen++
		m.emit(SetTimer{TimerRetry, max(m.retryPause(), min(e.RetryAfter, maxRetryAfter))})
		m.run.phase = phaseRetry
		m.run.retries++
		return
	}
	if m.run.opened {
		m.completeStep(sub.Message, "error", conversation.Usage{})
	}
	for _, c := range sub.OpenCalls() {
		m.enqueue(true, &conversation.ToolSettled{Call: c.Call, Failed: true, ErrorText: toolNotStarted, At: m.env.Wall})
	}
	m.settle(sub, conversation.OutcomeFailed, e.Err)
}

// retryPause doubles with every repetition and is shortened by up to half, so that
// the callers of a vendor that was down do not come back together.
func (m *Machine) retryPause() time.Duration {
	pause := m.cfg.RetryPause << m.run.retries
	return pause - pause*time.Duration(m.env.Seed[0])/512
}

// retry repeats the failed model call.
func (m *Machine) retry() {
	if m.run != nil && m.run.phase == phaseRetry {
		m.startCall()
	}
}

func (m *Machine) completeStep(id conversation.MessageID, stop string, usage conversation.Usage) {
	m.enqueue(true, &conversation.StepCompleted{
		Message: id, Turn: m.run.turn, StopReason: stop, Usage: usage, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
}

// runTools starts the open calls of the run; their records are durable.
func (m *Machine) runTools() {
	m.run.phase = phaseTools
	m.run.waiting, m.run.running = m.state.Submission(m.run.submission).OpenCalls(), 0
	m.startTools()
}

// startTools starts waiting calls, in call order, as far as the bound allows.
func (m *Machine) startTools() {
	r := m.run
	for len(r.waiting) > 0 && r.running < m.limits().ToolConcurrency {
		c := r.waiting[0]
		r.waiting, r.running = r.waiting[1:], r.running+1
		m.emit(RunTool{Gen: m.gen, Submission: r.submission, Turn: r.turn, Call: c.Call, Name: c.Name, Input: c.Input})
	}
}

func (m *Machine) toolDone(in ToolDone) {
	if m.run == nil || in.Gen != m.gen || m.run.phase != phaseTools || !m.owed(in.Call) {
		return
	}
	ms := int64(in.Duration / time.Millisecond)
	out := in.Output
	if !in.Failed && len(out) == 0 {
		out = nullOutput
	}
	if in.Failed {
		out = nil
	}
	took := &ms
	if in.NotRun {
		took = nil
	}
	m.enqueue(true, &conversation.ToolSettled{
		Call: in.Call, Output: out, Failed: in.Failed, ErrorText: in.ErrorText,
		DurationMs: took, ElapsedMs: m.elapsed(), At: m.env.Wall,
	})
	m.run.running--
	m.startTools()
	if m.run.running == 0 {
		m.callModel()
	}
}

// owed reports whether a call of the run has no outcome yet.
func (m *Machine) owed(id conversation.CallID) bool {
	return slices.ContainsFunc(m.state.Submission(m.run.submission).OpenCalls(), func(c conversation.ToolCall) bool {
		return c.Call == id
	})
}
