package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// checkReply returns an error if the conversation has too many pending replies, or nil.
func (m *Machine) checkReply(a conversation.Admission) *conversation.Error {
	if a.ReplyTo != nil && len(m.state.PendingReplies()) >= conversation.MaxPendingReplies {
		return overloaded(textRepliesPending, conversation.MaxPendingReplies)
	}
	return nil
}

// replyIsPending reports whether a reply exists that its sender has not received.
func (m *Machine) replyIsPending() bool {
	return staysForReply() && slices.ContainsFunc(m.state.PendingReplies(), func(o *conversation.PendingReply) bool { return o.Reply != nil })
}

// sendReplies sends the durable replies. An earlier writer may have sent them already; receivers
// deduplicate by submission.
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

func (m *Machine) replySent(in ReplySent) {
	if !m.sending[in.Submission] || m.draining {
		return
	}
	delete(m.sending, in.Submission)
	m.enqueue(true, &conversation.ReplySent{Must: true, Submission: in.Submission, At: m.env.Wall})
}
