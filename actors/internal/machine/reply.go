package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// checkReply returns why an admission cannot be promised a reply, or nil.
func (m *Machine) checkReply(a conversation.Admission) *conversation.Error {
	if a.ReplyTo != nil && len(m.state.PendingReplies()) >= conversation.MaxPendingReplies {
		return crowded(textRepliesPending, conversation.MaxPendingReplies)
	}
	return nil
}

// replyIsPending reports whether somebody waits for a reply that there is.
func (m *Machine) replyIsPending() bool {
	return staysForReply() && slices.ContainsFunc(m.state.PendingReplies(), func(o *conversation.PendingReply) bool { return o.Reply != nil })
}

// sendReplies has who waits for replies told of those that are durable, be it that an earlier
// writer has told them already: they go by the submissions' ids, and count once.
func (m *Machine) sendReplies() {
	if m.draining {
		return
	}
	for _, o := range m.state.PendingReplies() {
		if o.Reply != nil && o.At <= m.durable && !m.sending[o.Submission] {
			m.sending[o.Submission] = true
			m.emit(SendReply{To: o.To, Reply: o.Reply})
		}
	}
}

// replySent records that no sender waits for a reply any more.
func (m *Machine) replySent(in ReplySent) {
	if !m.sending[in.Submission] || m.draining {
		return
	}
	delete(m.sending, in.Submission)
	m.enqueue(true, &conversation.ReplySent{Must: true, Submission: in.Submission, At: m.env.Wall})
}
