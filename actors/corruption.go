package actors

import (
	"context"
	"fmt"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/conversation"
)

type (
	// checkLog asks an activation whether its log could be opened once more.
	checkLog struct{}
	// checkedLog is the answer: nil, or what is damaged.
	checkedLog struct{ err error }
)

// doubt has the owner of a conversation look whether its log could be opened again,
// because a reader of this node found damage: what cannot be read must not be continued
// from memory. It does not block.
func (r *Runtime) doubt(key conversation.Key) {
	if a, here := r.active.of(key); here {
		a.send(checkLog{})
		return
	}
	r.openForNobody(key)
}

// openForNobody has the owner of a conversation open it, or look whether it could. What
// fails then is the log's fault, and counts as such.
func (r *Runtime) openForNobody(key conversation.Key) {
	r.tasks.spawn(func() {
		ctx, cancel := context.WithTimeout(r.tasks.life, pending.ProbeTimeout)
		defer cancel()
		// A poke of nobody: it is no entry of a journal. Whether it comes to its owner only
		// decides when that one learns of it.
		_, _ = r.nodes.host.Request(ctx, string(key), &wire.ProbeRequest{})
	})
}

// checkLog reads the log as the next activation would. One look at a time is enough.
func (a *activation) checkLog() {
	if a.opening.checking || !a.machine.Open() || a.self.stopping {
		return
	}
	a.opening.checking = true
	a.rt.tasks.spawn(func() {
		out := a.readLog()
		if !out.damaged { // it can be opened, or nobody knows
			out.err = nil
		}
		a.self.Send(checkedLog{out.err})
	})
}

// checkedLog ends the activation if the next could not begin: its callers are told by
// that one.
func (a *activation) checkedLog(m checkedLog) {
	a.opening.checking = false
	if m.err != nil && !a.machine.Stopped() {
		a.step(machine.AppendLost{Err: fmt.Errorf("the log is damaged: %w", m.err)})
	}
}
