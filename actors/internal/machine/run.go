package machine

import (
	"encoding/json"

	"github.com/parleyrun/parley/conversation"
)

// stopCalls is the stop reason of the turn that calls a run's function.
const stopCalls = "tool_use"

// isRun reports whether an admission starts a run. Signals to runs are handled like signals to
// conversations.
func isRun(a conversation.Admission) bool {
	_, workflow := conversation.WorkflowOf(a.Address.Agent)
	return workflow && a.Delivery.Kind != conversation.KindSignal
}

// admitRun decides the admission of a run. An id has one run, even after its key expires.
func (m *Machine) admitRun(in Admit, hash string) {
	run := m.state.Run()
	if run == nil || !keepsOneRun() {
		if refusal := m.checkRun(in); refusal != nil {
			m.confirm(in.To, Refused{refusal})
			return
		}
		m.admitNew(in, hash)
		return
	}
	sub := m.state.Submission(run.Submission)
	if sub == nil {
		sub = &conversation.Submission{ID: run.Submission, PayloadHash: run.Hash, Offset: run.Offset, Settled: true}
	}
	if m.state.Created().Agent != in.Admission.Address.Agent {
		hash = "" // matches no hash: the run belongs to another workflow
	}
	m.replay(in, sub, hash)
}

func (m *Machine) checkRun(in Admit) *conversation.Error {
	a := in.Admission
	workflow, _ := conversation.WorkflowOf(a.Address.Agent)
	switch _, known := m.cfg.Limits(a.Address.Agent); {
	case !known:
		return conversation.Errorf(conversation.CodeWorkflowNotFound, "No workflow is registered as %q.", workflow)
	case !conversation.RunID(a.Address.ID).Valid():
		return conversation.Errorf(conversation.CodeInvalidRequest, "A run id is %q followed by a ULID; got %.80q.", "run_", a.Address.ID)
	case !json.Valid([]byte(a.Delivery.Body)) || len(a.Delivery.Attachments) > 0 || a.InitialData != nil:
		return conversation.Errorf(conversation.CodeInvalidRequest, "A run takes a JSON input, without attachments and initial data.")
	}
	return in.Unfit
}

// callFunction calls the function of a run. The call is recorded like a model's call of a durable
// tool, so that steps, waits and recovery work alike.
func (m *Machine) callFunction(w *work, name string) {
	w.turn = conversation.TurnID(m.ids.next("turn_"))
	message := conversation.MessageID(m.ids.next("msg_"))
	m.enqueue(true,
		&conversation.ResponseStarted{Message: message, Submission: w.submission, Turn: w.turn, At: m.env.Wall},
		&conversation.ToolCalled{
			Message: message, Call: conversation.CallID(m.ids.next("call_")), Name: name, Input: m.state.Run().Input, Durable: true, At: m.env.Wall,
		},
		&conversation.StepCompleted{Message: message, Turn: w.turn, StopReason: stopCalls, ElapsedMs: m.elapsed(), At: m.env.Wall},
	)
	w.phase, w.at = phaseCalling, m.nextOffset()
}

// returned settles a run in the batch of its function's outcome.
func (m *Machine) returned(w *work, done *conversation.ToolSettled) {
	sub := m.sub(w)
	if done.Failed {
		m.settle(sub, conversation.OutcomeFailed, failure(conversation.CodeRunFailed, done.ErrorText, nil))
		return
	}
	m.settle(sub, conversation.OutcomeCompleted, nil)
}
