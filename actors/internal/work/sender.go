package work

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
)

// sender dispatches the messages of tools and hooks in the work on one submission, within the limits
// of its agent. It is safe for concurrent use.
type sender struct {
	node   *Node
	self   conversation.Sender  // the submission
	by     *conversation.Sender // sender of the submission, nil for an external caller
	agent  string
	limits agent.Limits
	depth  atomic.Int64 // of the submission; at least the number of unsettled senders above it
	tree   conversation.TreeRef
	sent   atomic.Int64
}

var _ agenthost.Dispatcher = (*sender)(nil)

// senderOf returns the shared sender of the work on a submission.
func (r *Runner) senderOf(v *view) *sender {
	root := v.root
	if r.sender == nil || r.sender.self.Submission != root.id {
		ag := r.node.o.Agents[v.created.Agent]
		self := conversation.Sender{Address: v.created.Address().Reach(), Submission: root.id}
		r.sender = &sender{node: r.node, self: self, by: root.sender, agent: ag.Name, limits: ag.Limits.WithDefaults(), tree: root.tree}
		r.sender.depth.Store(int64(root.dispatchDepth))
	}
	return r.sender
}

// Admit implements [agenthost.Dispatcher]. Repetitions of sent messages and failed sends do not count.
func (s *sender) Admit(ctx context.Context, a conversation.Admission) (conversation.Receipt, error) {
	if err := s.checkDepth(ctx); err != nil {
		return conversation.Receipt{}, err
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
	a.DispatchDepth, a.Sender = int(s.depth.Load())+1, &s.self
	receipt, err := s.node.o.Admit(ctx, a)
	if err == nil && receipt.Deduplicated || conversation.CodeOf(err) == conversation.CodeUnavailable {
		s.sent.Add(-1)
	}
	return receipt, err
}

// checkDepth refuses a message below too many unsettled senders. At the limit it counts them, from the
// submission upwards to the first settled one. So a chain whose senders settle may continue without
// end.
func (s *sender) checkDepth(ctx context.Context) error {
	depth := s.depth.Load()
	if depth < int64(s.limits.DispatchDepth) {
		return nil
	}
	n, by := int64(0), s.by
	for ; n < depth; n++ {
		if by == nil { // Records of an earlier version do not name the sender.
			n = depth
			break
		}
		above, pending, err := s.node.o.Pending(ctx, *by)
		if conversation.CodeOf(err) == conversation.CodeUnavailable || ctx.Err() != nil {
			return fmt.Errorf("count unsettled senders: %w", err)
		}
		if err != nil { // A corrupt conversation has not settled its work, and the chain above it is unknown.
			n = depth
			break
		}
		if !pending {
			break
		}
		by = above
	}
	s.depth.Store(n)
	if n >= int64(s.limits.DispatchDepth) {
		return &agent.DispatchLimitError{Agent: s.agent, Option: "DispatchDepth", Limit: float64(s.limits.DispatchDepth)}
	}
	return nil
}
