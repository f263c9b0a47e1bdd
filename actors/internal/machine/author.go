package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

func (m *Machine) deliveryStarted(in DeliveryStarted) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseStartDelivery {
		return
	}
	if in.Err != nil {
		m.enqueue(true, stateRecords(in.State)...)
		m.failSubmission(m.sub(w), in.Err)
		return
	}
	m.enqueue(true, append(stateRecords(in.State), &conversation.HookDone{Submission: w.submission, Hook: conversation.HookDeliveryStarted})...)
	m.proceed(w)
}

// finish ends a response. A response without an answer gets one more model call; a complete one goes
// to the response hook, if there is one.
func (m *Machine) finish(w *work) {
	sub := m.sub(w)
	switch {
	case w.child != "" && w.reminder != "" && sub.Output() == nil && !reminded(sub, w.reminder):
		m.addNote(sub, w.reminder)
		m.callModel(w)
	case m.asksAgain(sub):
		m.addNote(sub, noteEmpty)
		m.callModel(w)
	case w.child != "":
		m.reportSilence(sub)
		m.endTask(w, conversation.OutcomeCompleted)
	case !m.limits().ResponseFinishedHook:
		m.complete(sub)
	default:
		w.phase = phaseFinishResponse
		last, _ := sub.LastTurn()
		m.emit(FinishResponse{
			Gen: m.newGen(w), Submission: w.submission, Turn: last.ID, Attempt: sub.Attempts, Number: w.turns,
		})
	}
}

// reminded reports whether the subagent's model got this reminder before. The note shares a batch with
// the end of the turn before it, so that no crash separates them.
func reminded(sub *conversation.Submission, reminder string) bool {
	return slices.ContainsFunc(sub.Turns(), func(t conversation.Turn) bool { return t.Note == reminder })
}

// responseFinished settles a response, or calls the model again if the hook asks for it.
func (m *Machine) responseFinished(in ResponseFinished) {
	w := m.workOf(in.Gen)
	if w == nil || w.phase != phaseFinishResponse {
		return
	}
	sub := m.sub(w)
	records := stateRecords(in.State)
	if in.Metadata != nil && in.Again == "" {
		records = append(records, &conversation.MetadataMerged{Message: sub.Message, Metadata: in.Metadata})
	}
	if len(records) > 0 {
		m.enqueue(true, records...)
	}
	switch {
	case in.Err != nil:
		m.failSubmission(sub, in.Err)
	case in.Again == "":
		m.complete(sub)
	case sub.Continued >= conversation.MaxContinued:
		m.failSubmission(sub, failure(conversation.CodeModelFailed, textContinued, map[string]any{"reason": "continued", "times": sub.Continued}))
	default:
		m.enqueue(true, &conversation.HookDone{Submission: sub.ID, Hook: conversation.HookContinued})
		m.addNote(sub, in.Again)
		m.callModel(w)
	}
}
