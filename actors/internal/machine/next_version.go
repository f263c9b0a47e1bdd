//go:build nextversion

package machine

import "github.com/parleyrun/parley/conversation"

// noteNext records a fact of this version once every node reads it.
func (m *Machine) noteNext(id conversation.SubmissionID) {
	if m.env.AllRead(conversation.TypeNextNoted) {
		m.enqueue(true, &conversation.NextNoted{Must: true, Submission: id})
	}
}
