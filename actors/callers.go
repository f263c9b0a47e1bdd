package actors

import (
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
)

// callers holds the pending requests to a machine: from other nodes, from programs on this node, and
// from steps of tools. It belongs to the activation's goroutine.
type callers struct {
	last    machine.ReplyID
	waiting map[machine.ReplyID]func(machine.Answer)
}

// add registers a caller and returns its reply id.
func (c *callers) add(answer func(machine.Answer)) machine.ReplyID {
	if c.waiting == nil {
		c.waiting = map[machine.ReplyID]func(machine.Answer){}
	}
	c.last++
	c.waiting[c.last] = answer
	return c.last
}

// answer answers one caller, if it still waits.
func (c *callers) answer(id machine.ReplyID, v machine.Answer) {
	if answer := c.waiting[id]; answer != nil {
		delete(c.waiting, id)
		answer(v)
	}
}

// answerAll answers all callers.
func (c *callers) answerAll(v machine.Answer) {
	for id := range c.waiting {
		c.answer(id, v)
	}
}

// answers returns a function that sends answers to the sender of a request.
func answers(from grain.Sender) func(machine.Answer) {
	return func(v machine.Answer) { from.Answer(answerMessage(v)) }
}

func answerMessage(v machine.Answer) proto.Message {
	switch v := v.(type) {
	case machine.Admitted:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Receipt{Receipt: &wire.Receipt{
			SubmissionId: string(v.Receipt.SubmissionID), Uid: string(v.Receipt.UID),
			Offset: int64(v.Receipt.Offset), Deduplicated: v.Receipt.Deduplicated,
		}}}
	case machine.Refused:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Failure{Failure: failureOf(v.Err)}}
	case machine.Aborted:
		return abortedReply(v)
	case machine.TreeStatus:
		return treeReply(v)
	case machine.Compacted:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Compacted{Compacted: v.Any}}
	case machine.Clear:
		return &wire.OwnerReply{Result: &wire.OwnerReply_Clear{Clear: true}}
	case machine.TimerChecked:
		return timerReply(v)
	case machine.Probed:
		switch {
		case v.Unknown:
			return &wire.ProbeReply{Answer: wire.ProbeReply_UNKNOWN}
		case v.Held:
			return &wire.ProbeReply{Answer: wire.ProbeReply_HELD}
		}
		return &wire.ProbeReply{Answer: wire.ProbeReply_SETTLED}
	}
	moved, ok := v.(machine.Moved)
	return &wire.OwnerReply{Result: &wire.OwnerReply_Moved{Moved: true}, Untouched: ok && moved.Untouched}
}

func timerReply(v machine.TimerChecked) proto.Message {
	switch {
	case v.Unknown:
		return &wire.ResumeReply{Answer: wire.ResumeReply_UNKNOWN}
	case v.Early:
		return &wire.ResumeReply{Answer: wire.ResumeReply_EARLY}
	}
	return &wire.ResumeReply{Answer: wire.ResumeReply_OVER}
}
