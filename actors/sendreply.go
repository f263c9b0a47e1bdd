package actors

import (
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// Backoff between attempts to deliver a reply.
const (
	sendPause    = time.Second
	maxSendPause = time.Minute
)

// sendReply delivers a reply to the conversation that waits for it; [machine.ReplySent] confirms it.
// It retries until the activation ends. Until it succeeds, the journal lists the conversation.
func (a *activation) sendReply(e machine.SendReply) {
	d, err := e.Reply.Signal(e.To.Name)
	notice := conversation.Admission{
		Address: e.To.Address, Delivery: d, Key: string(e.Reply.Submission), Dispatched: true,
		// A deleted conversation is not created again.
		Condition: conversation.Condition{Set: true, UID: e.To.UID},
	}
	if err != nil {
		a.log.Error("encode reply", "submission", string(e.Reply.Submission), "err", err)
		return
	}
	a.retry(func() bool {
		_, err := a.rt.Admit(a.self.ctx, notice)
		if replyDelivered(err) {
			a.self.Send(machine.ReplySent{Submission: e.Reply.Submission})
			return true
		}
		if a.self.ctx.Err() == nil {
			a.log.Warn("deliver reply failed", "submission", string(e.Reply.Submission), "to", string(e.To.Address.Key()), "err", err)
		}
		return false
	})
}

// retry retries try in another goroutine, with exponential backoff, until it is done or the
// activation ends.
func (a *activation) retry(try func() (done bool)) {
	a.rt.tasks.spawn(func() {
		for pause := sendPause; !try(); pause = min(2*pause, maxSendPause) {
			select {
			case <-time.After(pause):
			case <-a.self.ctx.Done():
				return
			}
		}
	})
}

// replyDelivered reports whether the reply was delivered or no wait for it is left.
func replyDelivered(err error) bool {
	if err == nil {
		return true
	}
	switch conversation.CodeOf(err) {
	case conversation.CodeAlreadyDecided, conversation.CodeInstanceNotFound, conversation.CodeRouteNotFound,
		conversation.CodeInvalidRequest, conversation.CodeSubmissionConflict:
		return true
	}
	return false
}
