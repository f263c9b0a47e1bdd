package machine

import (
	"slices"

	"github.com/parleyrun/parley/conversation"
)

// repliesRead reports whether every member reads that a reply is owed.
func (m *Machine) repliesRead() bool { return m.allRead(conversation.TypeReplyOwed) }

// owing returns what keeps an admission from being owed a reply, or a notice, or nil.
func (m *Machine) owing(a conversation.Admission) *conversation.Error {
	switch {
	case a.Notify != "" && !m.postsRead():
		return postsLater()
	case a.ReplyTo == nil:
		return nil
	case !m.repliesRead():
		err := conversation.Unavailable(waitLater, nil)
		err.Details = sayReplyLater
		return err
	case len(m.state.OwedReplies()) >= conversation.MaxOwedReplies:
		return crowded(sayRepliesOwed, conversation.MaxOwedReplies)
	}
	return nil
}

// owesReply reports whether somebody waits for a reply that there is.
func (m *Machine) owesReply() bool {
	return staysForReply() && slices.ContainsFunc(m.state.OwedReplies(), func(o *conversation.OwedReply) bool { return o.Reply != nil })
}

// sendReplies has who waits for replies told of those that are durable, be it that an earlier
// writer has told them already: they go by the submissions' ids, and count once.
func (m *Machine) sendReplies() {
	if m.draining {
		return
	}
	for _, o := range m.state.OwedReplies() {
		if o.Reply != nil && o.At <= m.durable && !m.sending[o.Submission] {
			m.sending[o.Submission] = true
			m.emit(SendReply{To: o.To, Reply: o.Reply})
		}
	}
}

// replyTold records that nobody waits for a reply any more.
func (m *Machine) replyTold(in ReplyTold) {
	if !m.sending[in.Submission] || m.draining {
		return
	}
	delete(m.sending, in.Submission)
	m.enqueue(true, &conversation.ReplyTold{Must: true, Submission: in.Submission, At: m.env.Wall})
}
