package work

import (
	"context"
	"sync/atomic"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// sender sends what tools and hooks dispatch in the work on one submission, within the
// bounds of its agent. It is safe for concurrent use.
type sender struct {
	node       *Node
	submission conversation.SubmissionID
	agent      string
	limits     agent.Limits
	depth      int // of the submission
	tree       conversation.TreeRef
	sent       atomic.Int64
}

var _ agenthost.Dispatcher = (*sender)(nil)

// senderOf returns the sender of the work on a submission, which all of it shares.
func (r *Runner) senderOf(v *view) *sender {
	root := v.root
	if r.sender == nil || r.sender.submission != root.id {
		ag := r.node.o.Agents[v.created.Agent]
		r.sender = &sender{node: r.node, submission: root.id, agent: ag.Name, limits: ag.Limits.WithDefaults(), depth: root.dispatchDepth, tree: root.tree}
	}
	return r.sender
}

// Admit implements [agenthost.Dispatcher]. What a repetition finds sent already does not
// count, nor what could not be sent.
func (s *sender) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	if s.depth >= s.limits.DispatchDepth {
		return conversation.Receipt{}, &agent.DispatchLimitError{Agent: s.agent, Option: "DispatchDepth", Limit: float64(s.limits.DispatchDepth)}
	}
	if s.sent.Add(1) > int64(s.limits.Dispatches) {
		s.sent.Add(-1)
		return conversation.Receipt{}, &agent.DispatchLimitError{Agent: s.agent, Option: "Dispatches", Limit: float64(s.limits.Dispatches)}
	}
	if err := s.node.gate.enter(ctx, s.agent); err != nil {
		s.sent.Add(-1)
		return conversation.Receipt{}, err
	}
	defer s.node.gate.leave()
	if err := s.join(ctx, &a); err != nil {
		s.sent.Add(-1)
		return conversation.Receipt{}, err
	}
	a.DispatchDepth = s.depth + 1
	receipt, err := s.node.o.Admit(ctx, a)
	if err == nil && receipt.Deduplicated || conversation.CodeOf(err) == conversation.CodeUnavailable {
		s.sent.Add(-1)
	}
	return receipt, err
}
