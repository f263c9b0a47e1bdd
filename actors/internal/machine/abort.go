package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// abort settles every unsettled submission as aborted, or only those of the dispatch tree in.Of. The
// abort takes its place in the record order: submissions that an earlier enqueued record settles stay
// settled, and the reply waits for that record. An empty result is confirmed against the bucket.
// Intent and outcomes share a batch, so that no crash separates them.
func (m *Machine) abort(in Abort) {
	if m.rejected(in.To) {
		return
	}
	unsettled := slices.Clone(m.state.Unsettled())
	if in.Of != nil {
		unsettled = slices.DeleteFunc(unsettled, func(sub *conversation.Submission) bool { return sub.Tree == nil || *sub.Tree != *in.Of })
	}
	answer := Aborted{Any: len(unsettled) > 0}
	for _, sub := range unsettled {
		if sub.Tree != nil && in.Trees && !slices.Contains(answer.PartOf, *sub.Tree) {
			answer.PartOf = append(answer.PartOf, *sub.Tree)
		}
	}
	opens := in.Trees && slices.ContainsFunc(m.state.Trees(), func(t *conversation.Tree) bool { return !t.Closed })
	if len(unsettled) > 0 || opens {
		m.abortAll(unsettled, in.Trees)
	}
	if in.Trees {
		for _, t := range m.state.Trees() {
			answer.Trees = append(answer.Trees, t.Submission)
		}
	}
	switch {
	case in.Trees && !abortsFirst():
		m.emit(Reply{in.To, answer})
	case len(unsettled) > 0 || opens:
		m.reply(in.To, answer, false)
	default:
		m.confirm(in.To, answer)
	}
}

// abortAll aborts the given submissions and, with trees, closes the dispatch trees rooted in this
// conversation.
func (m *Machine) abortAll(unsettled []*conversation.Submission, trees bool) {
	request := &conversation.AbortRequested{Trees: trees, At: m.env.Wall}
	for _, sub := range unsettled {
		request.Submissions = append(request.Submissions, sub.ID)
	}
	m.enqueue(true, request)
	if len(unsettled) > 0 {
		m.ensureListed() // Suspended submissions are not listed.
	}
	why := failure(conversation.CodeAborted, textAborted, nil)
	for _, sub := range unsettled {
		m.closeWork(sub, toolAborted, toolAborted, false)
		m.addDiagnostic(sub, why)
		m.conclude(sub, conversation.OutcomeAborted, why)
	}
	m.startNext()
}
