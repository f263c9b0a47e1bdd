package actors

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
)

const (
	// slowOpening is how long a log may be read for a caller before the journal says so.
	slowOpening = 250 * time.Millisecond
	// firstMessage is how long an activation waits to learn what it was begun for.
	firstMessage = time.Second
)

// unasked says that no message has come.
type unasked struct{}

// beginFor begins to open the log with the first message. Where a sweep or a timer asks,
// nobody else may know of the conversation, and it is asked for again and again: so the
// journal says first that it is about to be opened. Callers do not wait for that.
func (a *activation) beginFor(message any) {
	switch m := message.(type) {
	case *wire.PokeRequest:
		a.startOpening(m.GetNonce() != "")
	case *wire.WakeRequest, unasked:
		a.startOpening(true)
	case *wire.AdmitRequest, *wire.AbortRequest, *wire.CompactRequest:
		a.asked = true
		a.startOpening(false)
	case machine.Drain, grain.HandOver:
		a.startOpening(false)
	}
}

func (a *activation) startOpening(foretold bool) {
	if a.stopping {
		return
	}
	if a.begun {
		if foretold {
			a.tellOfOpening()
		}
		return
	}
	a.begun = true
	a.unasked.Stop()
	id := a.openingID()
	a.rt.spawn(func() { a.open(id, foretold) })
}

// tellOfOpening has the journal say what was begun for callers, because a sweep or a timer asks
// by now. A suspect may wait for its turn: it is told of when that comes.
func (a *activation) tellOfOpening() {
	select {
	case <-a.isOpen:
	default: // It is taken back after isOpen is closed.
		if foretellsOpening() && !a.rt.aside.suspects(a.key) {
			a.rt.journal.opening(a.openingID(), func() {})
		}
	}
}

// openingID names the entry of a conversation that is about to be opened. No writer has that
// name, so the entry never stands for one.
func (a *activation) openingID() entryID { return entryID{a.key, a.nonce + "-opening"} }

// open opens the log once nobody else runs the conversation, and takes the entry of that
// back when the machine has it.
func (a *activation) open(id entryID, foretold bool) {
	a.awaitRelease()
	out, leave := a.tryToOpen(id, foretold)
	defer leave()
	a.tell(out)
	select {
	case <-a.isOpen:
	case <-a.ctx.Done():
	}
	a.rt.journal.opened(id)
	a.rt.journal.wake() // The machine may have had its writer listed by now, in the same journal.
}

// tryToOpen reads the log, unless the conversation is set aside. Of suspects one is opened
// at a time, until leave is called.
func (a *activation) tryToOpen(id entryID, foretold bool) (out openedLog, leave func()) {
	leave = func() {}
	ctx, cancel := context.WithTimeout(a.ctx, openTimeout)
	defer cancel()
	if a.rt.aside.suspects(a.key) && suspectsTakeTurns() {
		if err := a.rt.aside.enter(ctx); err != nil {
			return openedLog{err: fmt.Errorf("open conversation %s: %w", a.key, err)}, leave
		}
		foretold, leave = true, a.rt.aside.leave
	}
	if err := a.rt.aside.refused(a.key); err != nil {
		return openedLog{err: fmt.Errorf("open conversation %s: %w", a.key, err)}, leave
	}
	if !foretold || !foretellsOpening() {
		return a.readForCallers(id), leave
	}
	if err := a.rt.journal.openingListed(ctx, id); err != nil {
		return openedLog{err: fmt.Errorf("open conversation %s: %w", a.key, err)}, leave
	}
	return a.readLog(), leave
}

// readForCallers reads the log, and has the journal say so if that takes long.
func (a *activation) readForCallers(id entryID) openedLog {
	defer a.rt.tellIfSlow(id)()
	return a.readLog()
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
// conversation set aside when that is too often.
func (a *activation) failed(why error) {
	n := a.rt.unread.failed(a.key, a.rt.opts.SweepEvery)
	if n < a.rt.aside.limit || !a.rt.aside.begin(a.key) {
		return
	}
	a.rt.spawn(func() {
		defer a.rt.aside.end(a.key)
		err := a.rt.setAside(a.rt.life, a.key, why.Error(), n)
		if err == nil {
			a.rt.unread.opened(a.key) // Put back, it begins anew.
		} else if a.rt.life.Err() == nil {
			a.log.Error("set conversation aside", "err", err)
		}
	})
}
