package actors

import (
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// Pauses before who waits for a reply is told again.
const (
	sendPause    = time.Second
	maxSendPause = time.Minute
)

// sendReply tells who waits for a reply of it; [machine.ReplySent] says so. It is tried until the
// activation ends: until then, and after it, the journal lists the conversation.
func (a *activation) sendReply(e machine.SendReply) {
	d, err := e.Reply.Signal(e.To.Name)
	notice := conversation.Admission{
		Address: e.To.Address, Delivery: d, Key: string(e.Reply.Submission), Dispatched: true,
		// An address may live again: what waited is not there then, and nothing is created for it.
		Condition: conversation.Condition{Set: true, UID: e.To.UID},
	}
	if err != nil {
		a.log.Error("encode reply", "submission", string(e.Reply.Submission), "err", err)
		return
	}
	a.insist(func() bool {
		_, err := a.rt.Admit(a.self.ctx, notice)
		if isTold(err) {
			a.self.Send(machine.ReplySent{Submission: e.Reply.Submission})
			return true
		}
		if a.self.ctx.Err() == nil {
			a.log.Warn("who waits for a reply is not told", "submission", string(e.Reply.Submission), "waits", string(e.To.Address.Key()), "err", err)
		}
		return false
	})
}

// insist tries something beside the activation until it is done, with pauses that double, or the
// activation ends.
func (a *activation) insist(try func() (done bool)) {
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

// isTold reports whether who waits has the reply, or nobody waits any more.
func isTold(err error) bool {
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
