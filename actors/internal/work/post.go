package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/contain"
	"github.com/parleyrun/parley/outbox"
)

var _ agenthost.Poster = (*toolCall)(nil)

// Post implements [agenthost.Poster].
func (c *toolCall) Post(_ context.Context, p agenthost.Posting) error {
	if _, err := c.node.o.Outbox.Find(p.Target); err != nil {
		return err
	}
	if c.node.o.Outbox.Replies(p.Target) {
		return errReplyTarget
	}
	output, err := conversation.EncodeJSON(p.ID)
	if err != nil {
		return err
	}
	switch c.ask(machine.Post{
		Gen: c.effect.Gen, Step: p.Step, Output: output,
		Enqueued: conversation.PostEnqueued{Post: conversation.PostID(p.ID), Call: c.effect.Call, Target: p.Target, Body: p.Body},
	}).(type) {
	case machine.PostKept:
		return nil
	case machine.PostFull:
		return agent.ErrOutboxFull
	case machine.StepTooMuch:
		return agent.ErrStepsFull
	}
	return errStepLost
}

// errReplyTarget reports a post to a target that accepts only notices of settlements.
var errReplyTarget = errors.New("target replies for a channel and accepts only notices; dispatch a message with this target as Notify")

// deliveriesAtOnce bounds the concurrent delivery attempts of a node. It also bounds its concurrent
// drafts.
const deliveriesAtOnce = 64

// deliveries limits and counts the outgoing posts of a node.
type deliveries struct {
	slots, drafts                            chan struct{} // for posts and for drafts
	waiting, delivered, failed, deadLettered atomic.Int64
}

func newDeliveries() deliveries {
	return deliveries{slots: make(chan struct{}, deliveriesAtOnce), drafts: make(chan struct{}, deliveriesAtOnce)}
}

// PostCounts are the post counters of a node.
type PostCounts struct {
	Waiting      int64 // queued or being delivered
	Delivered    int64
	Failed       int64 // attempts
	DeadLettered int64 // dead letters
}

// Posts returns the counts.
func (n *Node) Posts() PostCounts {
	return PostCounts{n.deliveries.waiting.Load(), n.deliveries.delivered.Load(), n.deliveries.failed.Load(), n.deliveries.deadLettered.Load()}
}

// CountDeadLetter counts a dead letter.
func (n *Node) CountDeadLetter() { n.deliveries.deadLettered.Add(1) }

// Deliver attempts to deliver a post. ok is false if ctx ended first and the outcome is unknown.
func (n *Node) Deliver(ctx context.Context, p outbox.Post) (out machine.PostTried, ok bool) {
	n.deliveries.waiting.Add(1)
	defer n.deliveries.waiting.Add(-1)
	select {
	case n.deliveries.slots <- struct{}{}:
		defer func() { <-n.deliveries.slots }()
	case <-ctx.Done():
		return out, false
	}
	began := time.Now()
	err := n.deliver(ctx, p)
	if ctx.Err() != nil && err != nil {
		return out, false
	}
	out = machine.PostTried{Post: p.ID, Delivered: err == nil, Took: time.Since(began)}
	if err == nil {
		n.deliveries.delivered.Add(1)
		return out, true
	}
	n.deliveries.failed.Add(1)
	var gone *outbox.GoneError
	var later *outbox.LaterError
	out.Reason = conversation.CutText(reasonOfPost(err), maxPostReason)
	out.Gone = errors.As(err, &gone)
	if errors.As(err, &later) {
		out.RetryAfter = later.After
	}
	return out, true
}

// reasonOfPost returns the failure text for operators. They run the target, so it may include the
// value of a panic.
func reasonOfPost(err error) string {
	var crash *contain.PanicError
	if errors.As(err, &crash) {
		return fmt.Sprintf("target panicked: %s", crash.Value)
	}
	return err.Error()
}

// maxPostReason bounds the reason of a failed delivery, in bytes.
const maxPostReason = 1 << 10

func (n *Node) deliver(ctx context.Context, p outbox.Post) error {
	target, err := n.o.Outbox.Find(p.Target)
	if err != nil {
		return err
	}
	return n.call(ctx, outbox.Timeout, func(ctx context.Context) error { return target.Deliver(ctx, p) })
}

// call calls a target that may ignore its context.
func (n *Node) call(ctx context.Context, limit time.Duration, target func(context.Context) error) error {
	late := fmt.Errorf("call exceeded %v: %w", limit, context.DeadlineExceeded)
	within, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	patience, stop := context.WithTimeoutCause(ctx, limit+toolGrace, late)
	defer stop()
	_, err := detached(patience, n, func() (none struct{}, _ error) {
		return none, contain.Run("target", func() error { return target(within) })
	})
	return err
}

// errShowing reports that a draft was skipped because too many are being shown.
var errShowing = errors.New("too many concurrent drafts")

// show shows a draft to a target. It does not queue: without a free slot the next draft is shown
// instead.
func (n *Node) show(ctx context.Context, to outbox.Live, d outbox.Draft) error {
	select {
	case n.deliveries.drafts <- struct{}{}:
		defer func() { <-n.deliveries.drafts }()
	default:
		return errShowing
	}
	return n.call(ctx, outbox.ShowTimeout, func(ctx context.Context) error { return to.Show(ctx, d) })
}
