package actors

import (
	"context"
	"maps"
	"slices"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// work is what runs outside the actor for one run of the machine: a model call, the
// tools it has called, or a hook.
type work struct {
	submission conversation.SubmissionID
	ctx        context.Context
	cancel     context.CancelFunc
	feed       *feed
	author     *author
}

// begin returns the work gen of a submission. If it is new, it ends what ran for the
// submission before, and goes on with the same author.
func (a *activation) begin(gen int, id conversation.SubmissionID) *work {
	if w := a.works[gen]; w != nil {
		return w
	}
	w := &work{submission: id, feed: &feed{gen: gen, tell: a.tell}}
	for old, before := range a.works {
		if before.submission == id {
			w.author = before.author
			a.endWork(old)
		}
	}
	if w.author == nil {
		w.author = a.authorOf(id)
	}
	w.ctx, w.cancel = context.WithCancel(a.ctx)
	if a.works == nil {
		a.works = map[int]*work{}
	}
	a.works[gen] = w
	return w
}

// endWork cancels what runs under gen, if anything does.
func (a *activation) endWork(gen int) {
	if w := a.works[gen]; w != nil {
		w.cancel()
		delete(a.works, gen)
	}
	if end := a.summaries[gen]; end != nil {
		end()
		delete(a.summaries, gen)
	}
}

// drainFeed gives the machine what the model call gen has produced, unless it has
// no room: then the next landed append asks again.
func (a *activation) drainFeed(gen int) {
	w := a.works[gen]
	if w == nil {
		return
	}
	if a.machine.Full() {
		a.starved = true
		return
	}
	model, events := w.feed.take()
	a.step(machine.Model{Gen: gen, Name: model, Events: events})
}

// drainFeeds is drainFeed for everything that had to wait.
func (a *activation) drainFeeds() {
	for _, gen := range slices.Sorted(maps.Keys(a.works)) {
		a.drainFeed(gen)
	}
}
