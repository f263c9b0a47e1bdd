package actors

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/actors/internal/wire"
)

// firstMessage is how long an activation waits to learn what it was begun for.
const firstMessage = time.Second

// opening is how far an activation is with its log. It belongs to the activation, but for
// done.
type opening struct {
	unasked  *time.Timer
	begun    bool
	asked    bool          // by a client, for something
	done     chan struct{} // closed when the machine has the log, or never will
	checking bool          // whether the log could be opened once more
}

// begin waits to learn what for, at most for a moment.
func (o *opening) begin(nothing func()) {
	o.done = make(chan struct{})
	o.unasked = time.AfterFunc(firstMessage, nothing)
}

// unasked says that no message has come.
type unasked struct{}

// beginFor begins to open the log with the first message. Where a sweep or a timer asks,
// nobody else may know of the conversation, and it is asked for again and again: so the
// journal says first that it is about to be opened. Callers do not wait for that.
func (a *activation) beginFor(message any) {
	switch m := message.(type) {
	case *wire.ProbeRequest:
		a.startOpening(m.GetNonce() != "")
	case *wire.ResumeRequest, unasked:
		a.startOpening(true)
	case admitRequest, *wire.AbortRequest, *wire.TreeRequest, *wire.CompactRequest:
		a.opening.asked = true
		a.startOpening(false)
	case machine.Drain, grain.HandOver:
		a.startOpening(false)
	}
}

func (a *activation) startOpening(announced bool) {
	if a.self.stopping {
		return
	}
	if a.opening.begun {
		if announced {
			a.announceOpening()
		}
		return
	}
	a.opening.begun = true
	a.opening.unasked.Stop()
	id := a.openingID()
	a.rt.tasks.spawn(func() { a.open(id, announced) })
}

// announceOpening has the journal say what was begun for callers, because a sweep or a timer asks
// by now.
func (a *activation) announceOpening() {
	select {
	case <-a.opening.done:
	default: // It is taken back after done is closed.
		a.rt.sweeper.AnnounceOpening(a.openingID())
	}
}

// openingID names the entry of a conversation that is about to be opened. No writer has that
// name, so the entry never stands for one.
func (a *activation) openingID() pending.ID {
	return pending.ID{Conv: a.key, Nonce: a.writer.nonce + "-opening"}
}

// open opens the log once nobody else runs the conversation, and takes the entry of that
// back when the machine has it.
func (a *activation) open(id pending.ID, announced bool) {
	a.awaitRelease()
	out, leave := a.tryToOpen(id, announced)
	defer leave()
	a.self.Send(out)
	select {
	case <-a.opening.done:
	case <-a.self.ctx.Done():
	}
	a.rt.sweeper.Journal.Opened(id)
	a.rt.sweeper.Journal.Nudge() // The machine may have had its writer listed by now, in the same journal.
}

// tryToOpen reads the log, unless the conversation is quarantined. Leave is called when the
// machine has it.
func (a *activation) tryToOpen(id pending.ID, announced bool) (out openedLog, leave func()) {
	ctx, cancel := context.WithTimeout(a.self.ctx, openTimeout)
	defer cancel()
	read, leave, err := a.rt.sweeper.EnterOpening(ctx, id, announced)
	if err != nil {
		return openedLog{err: fmt.Errorf("open conversation %s: %w", a.key, err)}, leave
	}
	defer read()
	return a.readLog(), leave
}

// readLog is read, with its panics contained: the next activation would have the same.
func (a *activation) readLog() (out openedLog) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("conversation cannot be read", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out = openedLog{err: fmt.Errorf("open conversation %s: panic: %v", a.key, p), damaged: true}
		}
	}()
	return a.read()
}

// failed counts that the log cannot be opened, for a reason that stays, and has the
// conversation quarantined when that is too often.
func (a *activation) failed(why error) {
	if quarantine := a.rt.sweeper.Failed(a.key, why); quarantine != nil {
		a.rt.tasks.spawn(func() { quarantine(a.rt.tasks.life) })
	}
}
