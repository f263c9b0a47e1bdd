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

// drafts are what a conversation shows of its replies while they are being said. They belong to the actor's
// goroutine.
type drafts struct {
	drafter *drafter            // nil unless somebody sees what is said now
	machine *machine.Machine    // that says it
	durable conversation.Offset // as the drafter knows it
	showing chan struct{}       // has an element while a draft is being shown; nil before the first drafter
}

// drafter shows the text of a reply to those who are told of its settlement, while its submission is worked
// on. Nothing rests on it: what it has not shown, the post of the settlement has.
type drafter struct {
	submission conversation.SubmissionID
	of         outbox.Draft // without text
	targets    map[string]outbox.Live
	replies    map[string]machine.NoticeTarget // the channel and the address that each target replies for
	end        context.CancelFunc
	text       chan outbox.Draft // has room for the one that is asked for

	// What follows belongs to the actor's goroutine.
	sees  map[string]bool // the targets it has begun with
	asked bool
	taken *outbox.Draft       // to be shown once the batch at is durable
	at    conversation.Offset // of taken
	shown string
}

// liveTargets are those that want to see drafts.
func liveTargets(r *outbox.Routes) map[string]outbox.Live {
	live := map[string]outbox.Live{}
	for name, t := range r.Targets {
		if l, ok := t.(outbox.Live); ok {
			live[name] = l
		}
	}
	return live
}

// Landed follows the submission that is under way, and gives its drafter what is durable up to an offset.
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
	d.give()
}

func (r *Runner) beginDraft(sub *conversation.Submission) {
	d := &r.drafts
	targets, sees := map[string]outbox.Live{}, map[string]bool{}
	replies := map[string]machine.NoticeTarget{}
	for _, to := range d.machine.NoticeTargets(sub) {
		if l := r.node.live[to.Target]; l != nil {
			targets[to.Target], sees[to.Target], replies[to.Target] = l, true, to
		}
	}
	if len(targets) == 0 {
		return
	}
	created := d.machine.State().Created()
	of := &drafter{
		submission: sub.ID, targets: targets, replies: replies, sees: sees, text: make(chan outbox.Draft, 1),
		of: outbox.Draft{From: created.Address(), UID: created.UID, Submission: sub.ID},
	}
	var ctx context.Context
	ctx, of.end = context.WithCancel(r.o.Life)
	if d.showing == nil {
		d.showing = make(chan struct{}, 1)
	}
	d.drafter = of
	showing, ask := d.showing, func() {
		r.o.Run(func() {
			of.asked = true
			if d.drafter == of {
				d.give()
			}
		})
	}
	r.spawn(func() {
		of.run(ctx, showing, ask, func(target string, to outbox.Live, draft outbox.Draft) error {
			// The end of the reply does not cut it short: it could be seen after the post.
			err := r.node.show(r.o.Life, to, draft)
			if err != nil && r.o.Life.Err() == nil {
				r.o.Logger.Debug("draft is not shown", "submission", string(of.submission), "target", target, "err", err)
			}
			return err
		})
	})
}

// LastWord ends what is shown of a submission to a target that is to get its post, and returns what waits until no draft
// is under way. That is not ok if ctx ends first.
func (r *Runner) LastWord(p *conversation.Post) (quiet func(ctx context.Context) (ok bool)) {
	d := &r.drafts
	if r.node.live[p.Target] == nil || d.showing == nil {
		return func(context.Context) bool { return true }
	}
	if d.drafter != nil && d.drafter.submission == p.Submission {
		d.end()
	}
	showing := d.showing
	return func(ctx context.Context) bool {
		ok := holdOne(ctx, showing)
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

// give gives the drafter what it has asked for, once there is something new that is durable. The state may be ahead of
// that: what is taken of it waits for the batch that has its end.
func (d *drafts) give() {
	of, state := d.drafter, d.machine.State()
	if of == nil || !of.asked {
		return
	}
	if of.taken == nil {
		sub := state.UnderWay()
		if sub == nil || sub.ID != of.submission || of.waits(state) {
			return
		}
		draft := of.of
		draft.Text, draft.Cut = sub.Draft()
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

// waits reports whether a target is owed a post, such as the reply before: what is shown now would come before it.
func (d *drafter) waits(s *conversation.State) bool {
	return slices.ContainsFunc(s.Posts(), func(p *conversation.Post) bool { return d.sees[p.Target] })
}

// run shows drafts until ctx ends, or nobody wants to see more.
func (d *drafter) run(ctx context.Context, showing chan struct{}, ask func(), show func(string, outbox.Live, outbox.Draft) error) {
	failures := 0
	for pause := outbox.DraftEvery; len(d.targets) > 0; {
		if !passTime(ctx, pause) {
			return
		}
		ask()
		var draft outbox.Draft
		select {
		case draft = <-d.text:
		case <-ctx.Done():
			return
		}
		if !holdOne(ctx, showing) {
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

// maxDraftBackoff bounds how often the pause doubles that a failure makes.
const maxDraftBackoff = 5

// passTime lets some time pass. It is not ok if ctx ends first.
func passTime(ctx context.Context, d time.Duration) (ok bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// holdOne takes what is had by one at a time; who has it takes it out again. It is not ok if ctx ends first.
func holdOne(ctx context.Context, one chan struct{}) (ok bool) {
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
