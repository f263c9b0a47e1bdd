package machine_test

import (
	"slices"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// asker is the sender that waits for replies.
var asker = conversation.ReplyTo{Address: conversation.Address{Agent: "desk", ID: "d"}, UID: "inst_desk", Name: "reply"}

// replyIsPending reports whether a reply exists that its sender has not received.
func (w *world) replyIsPending() bool {
	return slices.ContainsFunc(w.durable.PendingReplies(), func(o *conversation.PendingReply) bool { return o.Reply != nil })
}

func (w *world) sendReply(e machine.SendReply) {
	o := w.durable.ReplyIsPending(e.Reply.Submission)
	if o == nil || o.Reply == nil || o.To != e.To || o.Reply.Outcome != e.Reply.Outcome {
		violate("reply %+v is sent before it is durable", e.Reply)
	}
	if slices.Contains(w.sending, e.Reply.Submission) {
		violate("the reply to %s is sent twice at once", e.Reply.Submission)
	}
	w.sending = append(w.sending, e.Reply.Submission)
}

// replyArrives delivers a reply; its acknowledgement may be lost.
func (w *world) replyArrives() {
	id := w.sending[0]
	w.sending = w.sending[1:]
	w.received[id] = true
	w.note("reply to %s is delivered", id)
	w.do(machine.ReplySent{Submission: id})
}

func admits(b conversation.Batch, id conversation.SubmissionID) bool {
	return slices.ContainsFunc(b.Records, func(r conversation.Record) bool {
		a, ok := r.(*conversation.SubmissionAdmitted)
		return ok && a.Submission == id
	})
}

func (w *world) checkReplies(b conversation.Batch) {
	for _, r := range b.Records {
		switch r := r.(type) {
		case *conversation.ReplyPending:
			if !admits(b, r.Submission) {
				violate("reply_pending of %s is not in the batch of its admission", r.Submission)
			}
		case *conversation.KeyKept:
			if !admits(b, r.Submission) {
				violate("key_kept of %s is not in the batch of its admission", r.Submission)
			}
		case *conversation.ReplySent:
			if !w.received[r.Submission] {
				violate("reply_sent of %s without a delivered reply", r.Submission)
			}
		default:
			continue
		}
		w.seen[string(r.Type())]++
	}
}
