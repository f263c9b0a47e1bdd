package actors

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// draftDue says that a drafter can show more; it is sent to the activation.
type draftDue struct{ of *drafter }

// drafter shows the text of a reply to those who are told of its settlement, while its submission is worked
// on. Nothing rests on it: what it has not shown, the post of the settlement has.
type drafter struct {
	submission conversation.SubmissionID
	of         outbox.Draft // without text
	targets    map[string]outbox.Live
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

// draft follows the submission that is under way, and gives its drafter what is durable up to an offset.
func (a *activation) draft(durable conversation.Offset) {
	if len(a.rt.live) == 0 {
		return
	}
	sub := a.machine.State().UnderWay()
	if d := a.drafter; d != nil && (sub == nil || sub.ID != d.submission) {
		a.endDraft()
	}
	if sub == nil || a.machine.Stopped() {
		return
	}
	if a.drafter == nil {
		a.beginDraft(sub)
	}
	a.durable = durable
	a.giveDraft()
}

func (a *activation) beginDraft(sub *conversation.Submission) {
	targets, sees := map[string]outbox.Live{}, map[string]bool{}
	for _, name := range a.machine.Told(sub) {
		if l := a.rt.live[name]; l != nil {
			targets[name], sees[name] = l, true
		}
	}
	if len(targets) == 0 {
		return
	}
	created := a.machine.State().Created()
	d := &drafter{
		submission: sub.ID, targets: targets, sees: sees, text: make(chan outbox.Draft, 1),
		of: outbox.Draft{From: created.Address(), UID: created.UID, Submission: sub.ID},
	}
	var ctx context.Context
	ctx, d.end = context.WithCancel(a.self.ctx)
	if a.showing == nil {
		a.showing = make(chan struct{}, 1)
	}
	a.drafter = d
	showing, self, log := a.showing, a.self, a.log
	a.rt.tasks.spawn(func() {
		d.run(ctx, showing, func() { self.Send(draftDue{d}) }, func(target string, to outbox.Live, draft outbox.Draft) error {
			err := a.rt.work.Show(ctx, to, draft)
			if err != nil && ctx.Err() == nil {
				log.Debug("draft is not shown", "submission", string(d.submission), "target", target, "err", err)
			}
			return err
		})
	})
}

// endDraft ends the drafter, if there is one.
func (a *activation) endDraft() {
	if a.drafter != nil {
		a.drafter.end()
		a.drafter = nil
	}
}

// giveDraft gives the drafter what it has asked for, once there is something new that is durable. The state may be
// ahead of that: what is taken of it waits for the batch that has its end.
func (a *activation) giveDraft() {
	d := a.drafter
	if d == nil || !d.asked {
		return
	}
	if d.taken == nil {
		sub := a.machine.State().UnderWay()
		if sub == nil || sub.ID != d.submission || a.postsWait(d) {
			return
		}
		draft := d.of
		draft.Text, draft.Cut = sub.Draft()
		if draft.Text == "" || draft.Text == d.shown {
			return
		}
		d.taken, d.at = &draft, a.machine.State().Head()
	}
	if d.at <= a.durable {
		d.text <- *d.taken
		d.shown, d.taken, d.asked = d.taken.Text, nil, false
	}
}

// postsWait reports whether a target is owed a post, such as the reply before: what is shown now would come before it.
func (a *activation) postsWait(d *drafter) bool {
	return slices.ContainsFunc(a.machine.State().Posts(), func(p *conversation.Post) bool { return d.sees[p.Target] })
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
			draft.Target = name
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
