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

// firstMessage bounds the wait for an activation's first message.
const firstMessage = time.Second

// opening is the progress of opening the log. It belongs to the activation's goroutine, except done.
type opening struct {
	timeout  *time.Timer
	begun    bool
	byClient bool          // requested by a client
	done     chan struct{} // closed when the machine has the log, or never will
	checking bool          // a check of the log is running
}

// begin starts the wait for the first message; nothing is called if none comes.
func (o *opening) begin(nothing func()) {
	o.done = make(chan struct{})
	o.timeout = time.AfterFunc(firstMessage, nothing)
}

// noMessage reports that no message has come.
type noMessage struct{}

// beginFor starts opening the log at the first message. Sweeps and timers repeat their requests
// without any client, so the opening is first announced in the journal, which counts crashes. Requests
// of clients do not wait for an announcement.
func (a *activation) beginFor(message any) {
	switch m := message.(type) {
	case *wire.ProbeRequest:
		a.startOpening(m.GetNonce() != "")
	case *wire.ResumeRequest, noMessage:
		a.startOpening(true)
	case admitRequest, *wire.AbortRequest, *wire.TreeRequest, *wire.CompactRequest:
		a.opening.byClient = true
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
	a.opening.timeout.Stop()
	id := a.openingID()
	a.rt.tasks.spawn(func() { a.open(id, announced) })
}

// announceOpening announces an opening in progress that began for clients, because a sweep or a timer
// now asks too.
func (a *activation) announceOpening() {
	select {
	case <-a.opening.done:
	default: // The entry is removed after done is closed.
		a.rt.sweeper.AnnounceOpening(a.openingID())
	}
}

// openingID returns the id of the journal entry that announces an opening. No writer has this nonce.
func (a *activation) openingID() pending.ID {
	return pending.ID{Conv: a.key, Nonce: a.writer.nonce + "-opening"}
}

// open opens the log once no other node runs the conversation, and removes the announcement when the
// machine has the log.
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
	a.rt.sweeper.Journal.Signal() // The machine may have listed its writer in the same journal by now.
}

// tryToOpen reads the log, unless the conversation is quarantined. The caller calls leave when the
// machine has the log.
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

// readLog reads the log like read. It recovers panics, because the next activation would panic too.
func (a *activation) readLog() (out openedLog) {
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("conversation cannot be read", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out = openedLog{err: fmt.Errorf("open conversation %s: panic: %v", a.key, p), permanent: true}
		}
	}()
	return a.read()
}

// failed counts a permanent failure to open the log. After too many the conversation is quarantined.
func (a *activation) failed(why error) {
	if quarantine := a.rt.sweeper.Failed(a.key, why); quarantine != nil {
		a.rt.tasks.spawn(func() { quarantine(a.rt.tasks.ctx) })
	}
}
