package work

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// drafts are the drafts of replies under way in a conversation. They belong to the actor's goroutine.
type drafts struct {
	drafter *drafter            // nil unless a target shows drafts of the current reply
	machine *machine.Machine    // machine of the activation that writes the current reply
	durable conversation.Offset // durable head, as passed to Landed
	showing chan struct{}       // holds an element while a draft is shown; nil before the first drafter
}

// drafter shows drafts of a reply to the targets of its notice while the submission is under way.
// Drafts are best effort: the post of the settlement has the whole text.
type drafter struct {
	submission conversation.SubmissionID
	of         outbox.Draft // without text
	targets    map[string]outbox.Live
	replies    map[string]machine.NoticeTarget // for which each target replies
	end        context.CancelFunc
	text       chan outbox.Draft // has room for one requested draft

	// The following fields belong to the actor's goroutine.
	initial map[string]bool // the initial targets
	asked   bool
	taken   *outbox.Draft       // shown once the batch at is durable
	at      conversation.Offset // of taken
	shown   string
}

func liveTargets(r *outbox.Routes) map[string]outbox.Live {
	live := map[string]outbox.Live{}
	for name, t := range r.Targets {
		if l, ok := t.(outbox.Live); ok {
			live[name] = l
		}
	}
	return live
}

// Landed starts or ends the drafter for the submission under way and passes it the text that is
// durable.
func (r *Runner) Landed(m *machine.Machine, durable conversation.Offset) {
	if len(r.node.live) == 0 {
		return
	}
	d := &r.drafts
	sub := m.State().UnderWay()
	if d.drafter != nil && (sub == nil || sub.ID != d.drafter.submission) {
		d.end()
	}
	if sub == nil || m.Stopped() {
		return
	}
	d.machine, d.durable = m, durable
	if d.drafter == nil {
		r.beginDraft(sub)
	}
	d.offer()
}

func (r *Runner) beginDraft(sub *conversation.Submission) {
	d := &r.drafts
	targets, initial := map[string]outbox.Live{}, map[string]bool{}
	replies := map[string]machine.NoticeTarget{}
	for _, to := range d.machine.NoticeTargets(sub) {
		if l := r.node.live[to.Target]; l != nil {
			targets[to.Target], initial[to.Target], replies[to.Target] = l, true, to
		}
	}
	if len(targets) == 0 {
		return
	}
	created := d.machine.State().Created()
	of := &drafter{
		submission: sub.ID, targets: targets, replies: replies, initial: initial, text: make(chan outbox.Draft, 1),
		of: outbox.Draft{From: created.Address(), UID: created.UID, Submission: sub.ID},
	}
	var ctx context.Context
	ctx, of.end = context.WithCancel(r.o.BaseContext)
	if d.showing == nil {
		d.showing = make(chan struct{}, 1)
	}
	d.drafter = of
	showing, ask := d.showing, func() {
		r.o.Run(func() {
			of.asked = true
			if d.drafter == of {
				d.offer()
			}
		})
	}
	r.spawn(func() {
		of.run(ctx, showing, ask, func(target string, to outbox.Live, draft outbox.Draft) error {
			// A draft under way is not cancelled at the end of the reply, because it might then appear
			// after the post.
			err := r.node.show(r.o.BaseContext, to, draft)
			if err != nil && r.o.BaseContext.Err() == nil {
				r.o.Logger.Debug("show draft failed", "submission", string(of.submission), "target", target, "err", err)
			}
			return err
		})
	})
}

// EndDrafts ends the drafts of a submission before its post is delivered. quiet waits until no draft is
// under way; ok is false if ctx ends first.
func (r *Runner) EndDrafts(p *conversation.Post) (quiet func(ctx context.Context) (ok bool)) {
	d := &r.drafts
	if r.node.live[p.Target] == nil || d.showing == nil {
		return func(context.Context) bool { return true }
	}
	if d.drafter != nil && d.drafter.submission == p.Submission {
		d.end()
	}
	showing := d.showing
	return func(ctx context.Context) bool {
		ok := acquire(ctx, showing)
		if ok {
			<-showing
		}
		return ok
	}
}

func (d *drafts) end() {
	d.drafter.end()
	d.drafter = nil
}

// offer passes the requested draft to the drafter once it is new and durable. The state may be ahead of
// the log, so a draft waits for the batch of its end.
func (d *drafts) offer() {
	of, state := d.drafter, d.machine.State()
	if of == nil || !of.asked {
		return
	}
	if of.taken == nil {
		sub := state.UnderWay()
		if sub == nil || sub.ID != of.submission || of.overtakes(state) {
			return
		}
		draft := of.of
		draft.Text, draft.Truncated = sub.Draft()
		if draft.Text == "" || draft.Text == of.shown {
			return
		}
		of.taken, of.at = &draft, state.Head()
	}
	if of.at <= d.durable {
		of.text <- *of.taken
		of.shown, of.taken, of.asked = of.taken.Text, nil, false
	}
}

// overtakes reports whether a target has an undelivered post, such as an earlier reply, which a draft
// would overtake.
func (d *drafter) overtakes(s *conversation.State) bool {
	return slices.ContainsFunc(s.Posts(), func(p *conversation.Post) bool { return d.initial[p.Target] })
}

// run shows drafts until ctx ends or no target is left.
func (d *drafter) run(ctx context.Context, showing chan struct{}, ask func(), show func(string, outbox.Live, outbox.Draft) error) {
	failures := 0
	for pause := outbox.DraftEvery; len(d.targets) > 0; {
		if !sleep(ctx, pause) {
			return
		}
		ask()
		var draft outbox.Draft
		select {
		case draft = <-d.text:
		case <-ctx.Done():
			return
		}
		if !acquire(ctx, showing) {
			return
		}
		pause, failures = outbox.DraftEvery, failures+1
		failed := false
		for name, to := range d.targets {
			if ctx.Err() != nil {
				break
			}
			draft.Target, draft.Channel, draft.ReplyAddress = name, d.replies[name].Channel, d.replies[name].Address
			var gone *outbox.GoneError
			var later *outbox.LaterError
			switch err := show(name, to, draft); {
			case err == nil:
				continue
			case errors.As(err, &gone):
				delete(d.targets, name)
				continue
			case errors.As(err, &later):
				pause = max(pause, later.After)
			}
			failed = true
		}
		<-showing
		if !failed {
			failures = 0
		}
		pause = max(pause, outbox.DraftEvery<<min(failures, maxDraftBackoff))
	}
}

const maxDraftBackoff = 5

// sleep waits for d. ok is false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) (ok bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// acquire acquires the semaphore one; the caller releases it by a receive. ok is false if ctx ends
// first.
func acquire(ctx context.Context, one chan struct{}) (ok bool) {
	select {
	case one <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	if ctx.Err() != nil {
		<-one
		return false
	}
	return true
}
