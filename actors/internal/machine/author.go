package machine

import "github.com/parleyrun/parley/conversation"

// deliveryPrepared goes on after the author has seen a delivery.
func (m *Machine) deliveryPrepared(in DeliveryPrepared) {
	r := m.runOf(in.Gen)
	if r == nil || r.phase != phasePreparing {
		return
	}
	if in.Err != nil {
		m.enqueue(true, stateRecords(in.State)...)
		m.giveUp(m.sub(r), in.Err)
		return
	}
	m.enqueue(true, append(stateRecords(in.State), &conversation.HookDone{Submission: r.submission, Hook: conversation.HookStarted})...)
	m.proceed(r)
}

// finish shows the complete response to its author, if they want to see it.
func (m *Machine) finish(r *run) {
	sub := m.sub(r)
	switch {
	case r.child != "":
		m.endTask(r, conversation.OutcomeCompleted)
	case !m.limits().FinishHook:
		m.settle(sub, conversation.OutcomeCompleted, nil)
	default:
		r.phase = phaseFinish
		last, _ := sub.LastStep()
		m.emit(FinishResponse{
			Gen: m.newGen(r), Submission: r.submission, Turn: last.Turn, Attempt: sub.Attempts, Step: r.step,
		})
	}
}

// responseFinished settles a response, or sends the model on.
func (m *Machine) responseFinished(in ResponseFinished) {
	r := m.runOf(in.Gen)
	if r == nil || r.phase != phaseFinish {
		return
	}
	sub := m.sub(r)
	records := stateRecords(in.State)
	if in.Metadata != nil && in.Again == "" {
		records = append(records, &conversation.MetadataMerged{Message: sub.Message, Metadata: in.Metadata})
	}
	if len(records) > 0 {
		m.enqueue(true, records...)
	}
	switch {
	case in.Again == "":
		m.settle(sub, conversation.OutcomeCompleted, nil)
	case sub.Continued >= conversation.MaxContinued:
		m.giveUp(sub, failure(conversation.CodeModelFailed, sayContinued, map[string]any{"reason": "continued", "times": sub.Continued}))
	default:
		m.enqueue(true, &conversation.HookDone{Submission: sub.ID, Hook: conversation.HookContinued})
		m.tell(sub, in.Again)
		m.callModel(r)
	}
}
