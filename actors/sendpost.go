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

// sendPost makes one attempt to deliver a post; the result arrives as [machine.PostTried].
func (a *activation) sendPost(e machine.SendPost) {
	created, p := a.machine.State().Created(), e.Post
	out := outbox.Post{
		ID: p.ID, Target: p.Target, Body: p.Body, From: created.Address(), UID: created.UID, Submission: p.Submission, Channel: p.Channel, ReplyAddress: p.ReplyAddress,
		Enqueued: time.UnixMilli(int64(p.At)), Attempt: p.Attempts + 1,
	}
	quiet := a.work.EndDrafts(p)
	a.rt.tasks.spawn(func() {
		if !quiet(a.self.ctx) {
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

// buryPost stores the dead letter of a post; [machine.DeadLetterStored] confirms it. It retries until the
// activation ends. Until it succeeds, the journal or a timer lists the conversation.
func (a *activation) buryPost(e machine.StoreDeadLetter) {
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
			// These are the arguments of "parley outbox resend"; a just created conversation's log
			// lacks the address.
			a.rt.opts.Logger.Error("post failed permanently; dead letter stored", "conversation", string(a.key), "agent", l.Address.Agent, "id", l.Address.ID,
				"post", string(l.Post), "batch", l.Seq, "target", l.Target, "attempts", l.Attempts, "reason", l.Reason)
			a.self.Send(machine.DeadLetterStored{Post: l.Post})
		} else if a.self.ctx.Err() == nil {
			a.log.Error("store dead letter", "post", string(l.Post), "err", err)
		}
		return err == nil
	})
}

// checkPosts returns an error if an admission's target is not configured or not open to its caller. A
// caller gets the same answer for both, which reveals no target.
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

// notifiable reports whether a caller may name the target of an admission.
func (r *Runtime) notifiable(a *conversation.Admission) bool {
	to := r.agents[a.Address.Agent]
	return to != nil && r.opts.Outbox.Open(to.Notifiable, a.Notify)
}

func isOutboxSignal(d *conversation.Delivery) bool {
	return d.Kind == conversation.KindSignal && d.Type == conversation.SignalOutbox
}

// deadPost returns the lookup of the post that a signal redelivers, nil for any other admission.
func (a *activation) deadPost(adm conversation.Admission) func(context.Context, *checkedAdmission) error {
	d := adm.Delivery
	if !isOutboxSignal(&d) {
		return nil
	}
	return func(ctx context.Context, in *checkedAdmission) error {
		seq, err := strconv.ParseInt(d.Attributes["batch"], 10, 64)
		if err != nil || seq < 0 {
			return nil // The machine rejects an invalid id.
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
				in.dead = p
			}
		}
		return nil
	}
}
