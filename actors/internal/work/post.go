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

// errReplyTarget says that a tool posts to a target that takes notices of settlements alone.
var errReplyTarget = errors.New("the target replies for a channel and takes nothing else; dispatch a message with this target as Notify")

// deliveriesAtOnce bounds the attempts of a node that are under way, and as many drafts may be being shown.
const deliveriesAtOnce = 64

// desk is where the posts of a node leave.
type desk struct {
	slots, drafts                       chan struct{} // of posts, and of what is shown before them
	waiting, delivered, failed, givenUp atomic.Int64
}

func newDesk() desk {
	return desk{slots: make(chan struct{}, deliveriesAtOnce), drafts: make(chan struct{}, deliveriesAtOnce)}
}

// PostCounts are what has become of the posts of a node.
type PostCounts struct {
	Waiting   int64 // for their turn, or for their targets
	Delivered int64
	Failed    int64 // attempts
	GivenUp   int64 // dead letters
}

// Posts returns the counts.
func (n *Node) Posts() PostCounts {
	return PostCounts{n.desk.waiting.Load(), n.desk.delivered.Load(), n.desk.failed.Load(), n.desk.givenUp.Load()}
}

// GaveUp counts a dead letter.
func (n *Node) GaveUp() { n.desk.givenUp.Add(1) }

// Deliver makes an attempt to deliver a post. It is not ok if ctx has ended first, so that nothing is
// known of it.
func (n *Node) Deliver(ctx context.Context, p outbox.Post) (out machine.PostTried, ok bool) {
	n.desk.waiting.Add(1)
	defer n.desk.waiting.Add(-1)
	select {
	case n.desk.slots <- struct{}{}:
		defer func() { <-n.desk.slots }()
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
		n.desk.delivered.Add(1)
		return out, true
	}
	n.desk.failed.Add(1)
	var gone *outbox.GoneError
	var later *outbox.LaterError
	out.Reason = conversation.CutText(reasonOfPost(err), maxPostReason)
	out.Gone = errors.As(err, &gone)
	if errors.As(err, &later) {
		out.RetryAfter = later.After
	}
	return out, true
}

// reasonOfPost is what operators read of a failure. They run the target, so the value of a panic is no secret from them.
func reasonOfPost(err error) string {
	var crash *contain.PanicError
	if errors.As(err, &crash) {
		return fmt.Sprintf("its target panicked: %s", crash.Value)
	}
	return err.Error()
}

// maxPostReason bounds what is recorded of a failure, in bytes.
const maxPostReason = 1 << 10

// deliver gives a post to its target.
func (n *Node) deliver(ctx context.Context, p outbox.Post) error {
	target, err := n.o.Outbox.Find(p.Target)
	if err != nil {
		return err
	}
	return n.call(ctx, outbox.Timeout, func(ctx context.Context) error { return target.Deliver(ctx, p) })
}

// call calls a target, which may not heed its context.
func (n *Node) call(ctx context.Context, limit time.Duration, target func(context.Context) error) error {
	late := fmt.Errorf("it did not end within %v: %w", limit, context.DeadlineExceeded)
	within, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	patience, stop := context.WithTimeoutCause(ctx, limit+toolGrace, late)
	defer stop()
	_, err := detached(patience, n, func() (none struct{}, _ error) {
		return none, contain.Run("its target", func() error { return target(within) })
	})
	return err
}

// errShowing says that a draft is left out, since too many are being shown.
var errShowing = errors.New("too many drafts are being shown")

// show shows a draft to a target. It waits for no turn: who has none shows the next.
func (n *Node) show(ctx context.Context, to outbox.Live, d outbox.Draft) error {
	select {
	case n.desk.drafts <- struct{}{}:
		defer func() { <-n.desk.drafts }()
	default:
		return errShowing
	}
	return n.call(ctx, outbox.ShowTimeout, func(ctx context.Context) error { return to.Show(ctx, d) })
}
