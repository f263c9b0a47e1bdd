package actors

import (
	"context"
	"sync/atomic"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// sender sends what tools and hooks dispatch in the work on one submission, within the
// bounds of its agent. It is safe for concurrent use.
type sender struct {
	rt         *Runtime
	submission conversation.SubmissionID
	agent      string
	limits     agent.Limits
	depth      int // of the submission
	sent       atomic.Int64
}

var _ agent.Dispatcher = (*sender)(nil)

// senderOf returns the sender of the work on a submission, which all of it shares.
func (a *activation) senderOf(sub *conversation.Submission) *sender {
	if a.sender == nil || a.sender.submission != sub.ID {
		ag := a.rt.agents[a.machine.State().Created().Agent]
		a.sender = &sender{rt: a.rt, submission: sub.ID, agent: ag.Name, limits: ag.Limits.WithDefaults(), depth: sub.DispatchDepth}
	}
	return a.sender
}

// Admit implements [agent.Dispatcher]. What a repetition finds sent already does not
// count.
func (s *sender) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	if s.depth >= s.limits.DispatchDepth {
		return conversation.Receipt{}, &agent.DispatchLimitError{Agent: s.agent, Option: "DispatchDepth", Limit: s.limits.DispatchDepth}
	}
	if s.sent.Add(1) > int64(s.limits.Dispatches) {
		s.sent.Add(-1)
		return conversation.Receipt{}, &agent.DispatchLimitError{Agent: s.agent, Option: "Dispatches", Limit: s.limits.Dispatches}
	}
	if err := s.rt.gate.enter(ctx, s.agent); err != nil {
		s.sent.Add(-1)
		return conversation.Receipt{}, err
	}
	defer s.rt.gate.leave()
	a.DispatchDepth = s.depth + 1
	receipt, err := s.rt.Admit(ctx, a)
	if err == nil && receipt.Deduplicated {
		s.sent.Add(-1)
	}
	return receipt, err
}
