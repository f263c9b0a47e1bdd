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
	if a.begun || a.stopping {
		return
	}
	a.begun = true
	a.unasked.Stop()
	id := a.openingID()
	a.rt.spawn(func() { a.open(id, foretold) })
}

// openingID names the entry of a conversation that is about to be opened. No writer has that
// name, so the entry never stands for one.
func (a *activation) openingID() entryID { return entryID{a.key, a.nonce + "-opening"} }

// open opens the log once nobody else runs the conversation, and takes the entry of that
// back when the machine has it.
func (a *activation) open(id entryID, foretold bool) {
	a.awaitRelease()
	defer func() { // The machine may have had its writer listed by then, in the same journal.
		a.rt.journal.opened(id)
		a.rt.journal.wake()
	}()
	out, leave := a.tryToOpen(id, foretold)
	defer leave()
	a.tell(out)
	select {
	case <-a.isOpen:
	case <-a.ctx.Done():
	}
}

// tryToOpen reads the log, unless the conversation is set aside. Of suspects one is opened
// at a time, until leave is called.
func (a *activation) tryToOpen(id entryID, foretold bool) (out openedLog, leave func()) {
	leave = func() {}
	ctx, cancel := context.WithTimeout(a.ctx, openTimeout)
	defer cancel()
	if a.rt.aside.died(a.key) > 0 && suspectsTakeTurns() {
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
	listed := make(chan struct{})
	a.rt.journal.opening(id, func() { close(listed) })
	select {
	case <-listed:
		return a.readLog(), leave
	case <-ctx.Done():
		return openedLog{err: fmt.Errorf("open conversation %s: list it first: %w", a.key, ctx.Err())}, leave
	}
}

// readForCallers reads the log, and has the journal say so if that takes long.
func (a *activation) readForCallers(id entryID) openedLog {
	told := make(chan struct{})
	slow := time.AfterFunc(slowOpening, func() {
		defer close(told)
		a.rt.journal.opening(id, func() {})
	})
	out := a.readLog()
	if !slow.Stop() {
		<-told
	}
	return out
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
	if n < a.rt.aside.limit {
		return
	}
	a.rt.spawn(func() {
		err := a.rt.setAside(a.rt.life, a.key, why.Error(), n)
		if err == nil {
			a.rt.unread.opened(a.key) // Put back, it begins anew.
		} else if a.rt.life.Err() == nil {
			a.log.Error("set conversation aside", "err", err)
		}
	})
}
