package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// abort ends everything that is owed a settlement. It is decided at its place in
// the record order: what a record enqueued before it has settled is settled, and
// the reply waits for that record. That there is nothing is confirmed. Intent and
// outcomes leave in one batch, so that no crash comes between them.
func (m *Machine) abort(in Abort) {
	if m.closed(in.To) {
		return
	}
	owed := slices.Clone(m.state.Unsettled())
	if len(owed) == 0 {
		m.confirm(in.To, Aborted{})
		return
	}
	request := &conversation.AbortRequested{At: m.env.Wall}
	for _, sub := range owed {
		request.Submissions = append(request.Submissions, sub.ID)
	}
	m.enqueue(true, request)
	m.ensureListed() // What was parked is not.
	why := failure(conversation.CodeAborted, sayAborted, nil)
	for _, sub := range owed {
		m.closeWork(sub, toolAborted, toolAborted, false)
		m.advise(sub, why)
		m.conclude(sub, conversation.OutcomeAborted, why)
	}
	m.reply(in.To, Aborted{Any: true}, false)
}
