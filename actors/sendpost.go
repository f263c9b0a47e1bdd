package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/storage"
)

// sendPost starts one attempt to deliver a post, in a goroutine of the runtime. The result arrives at
// the activation as [machine.PostTried]. It does not arrive if the activation ends first.
func (a *activation) sendPost(e machine.SendPost) {
	created, p := a.machine.State().Created(), e.Post
	out := outbox.Post{
		ID: p.ID, Target: p.Target, Body: p.Body, From: created.Address(), UID: created.UID, Submission: p.Submission, Channel: p.Channel, ReplyAddress: p.ReplyAddress,
		Enqueued: time.UnixMilli(int64(p.At)), Attempt: p.Attempts + 1,
	}
	waitDrafts := a.work.EndDrafts(p)
	a.rt.tasks.spawn(func() {
		if !waitDrafts(a.self.ctx) {
			return
		}
		tried, ok := a.rt.work.Deliver(a.self.ctx, out)
		if !ok {
			return // The next activation of the conversation retries.
		}
		if !tried.Delivered {
			a.log.Warn("post delivery failed", "post", string(out.ID), "target", out.Target, "attempt", out.Attempt, "reason", tried.Reason)
		}
		a.self.Send(tried)
	})
}

// storeDeadLetter stores the dead letter of a post, in a goroutine of the runtime. It retries until
// the activation ends, and then sends [machine.DeadLetterStored]. Until it succeeds, the pending-work
// journal or a timer lists the conversation, so another activation tries again.
func (a *activation) storeDeadLetter(e machine.StoreDeadLetter) {
	l := storage.DeadLetter{
		Conv: a.key, Address: a.machine.State().Created().Address(), Post: e.Post.ID, Seq: int64(e.Post.Offset),
		Submission: e.Post.Submission, Target: e.Post.Target, Attempts: e.Attempts, Reason: e.Reason, At: conversation.TimeOf(a.rt.world.wall()),
	}
	a.retry(func() bool {
		ctx, cancel := context.WithTimeout(a.self.ctx, a.rt.opts.AppendTimeout)
		defer cancel()
		err := storage.PutDeadLetter(ctx, a.rt.bucket, l)
		if err == nil {
			a.rt.work.CountDeadLetter()
			// The attributes are the arguments of "parley outbox resend". a.log may lack the address
			// of a conversation that was just created.
			a.rt.opts.Logger.Error("post failed permanently; dead letter stored", "conversation", string(a.key), "agent", l.Address.Agent, "id", l.Address.ID,
				"post", string(l.Post), "batch", l.Seq, "target", l.Target, "attempts", l.Attempts, "reason", l.Reason)
			a.self.Send(machine.DeadLetterStored{Post: l.Post})
		} else if a.self.ctx.Err() == nil {
			a.log.Error("store dead letter", "post", string(l.Post), "err", err)
		}
		return err == nil
	})
}

// checkPosts checks the targets to which an admission would post: the target of its notice, which must
// be configured and open to the caller. The error is invalid_request. A caller gets the same text for
// an unknown and for a closed target, so that it does not reveal the configured ones.
func (r *Runtime) checkPosts(a *conversation.Admission) error {
	if a.Notify == "" && !isOutboxSignal(&a.Delivery) {
		return nil
	}
	if a.Notify != "" && !a.OfProgram() && !r.notifiable(a) {
		return conversation.Errorf(conversation.CodeInvalidRequest, "The notice cannot be sent: the agent opens no such target to its callers.")
	}
	if a.Notify != "" {
		if _, err := r.opts.Outbox.Find(a.Notify); err != nil {
			return conversation.Errorf(conversation.CodeInvalidRequest, "The notice cannot be sent: %v.", err)
		}
	}
	return nil
}

// notifiable reports whether the agent's option Notifiable lets callers name the target of this
// notice.
func (r *Runtime) notifiable(a *conversation.Admission) bool {
	to := r.agents[a.Address.Agent]
	return to != nil && r.opts.Outbox.Open(to.Notifiable, a.Notify)
}

func isOutboxSignal(d *conversation.Delivery) bool {
	return d.Kind == conversation.KindSignal && d.Type == conversation.SignalOutbox
}

// deadPost returns a function that reads the post that a redelivery signal names, from its batch in
// the log, into the admission. It returns nil for any other admission. The function returns an
// error only if the bucket is unavailable or the batch does not decode. An unknown post is not an error
// here, because the machine rejects the signal.
func (a *activation) deadPost(adm conversation.Admission) func(context.Context, *checkedAdmission) error {
	d := adm.Delivery
	if !isOutboxSignal(&d) {
		return nil
	}
	return func(ctx context.Context, in *checkedAdmission) error {
		seq, err := strconv.ParseInt(d.Attributes["batch"], 10, 64)
		if err != nil || seq < 0 {
			return nil // The machine rejects the signal.
		}
		batches, err := a.rt.logs.Range(ctx, a.key, seq, seq)
		var gap *storage.GapError
		if errors.As(err, &gap) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrRefused) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the batch of a dead letter: %w", err)
		}
		records, err := conversation.DecodeRecords(batches[0].Lines)
		if err != nil {
			return fmt.Errorf("read the batch of a dead letter: %w", err)
		}
		for _, r := range records {
			if p, ok := r.(*conversation.PostEnqueued); ok && string(p.Post) == d.Attributes["post"] {
				in.deadLetter = p
			}
		}
		return nil
	}
}
