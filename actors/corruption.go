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
	// checkLog asks an activation to verify that its log can be read again.
	checkLog struct{}
	// checkedLog is the result: nil, or the corruption found.
	checkedLog struct{ err error }
)

// verifyLog asks the owner of a conversation to verify its log, because a reader of this node found
// corruption. A conversation with an unreadable log must not continue from memory. It does not block.
func (r *Runtime) verifyLog(key conversation.Key) {
	if a, here := r.active.of(key); here {
		a.send(checkLog{})
		return
	}
	r.probeOwner(key)
}

// probeOwner asks the owner to open a conversation, or to verify its log if it is open. A failure
// then is caused by the log and counts towards quarantine.
func (r *Runtime) probeOwner(key conversation.Key) {
	r.tasks.spawn(func() {
		ctx, cancel := context.WithTimeout(r.tasks.ctx, pending.ProbeTimeout)
		defer cancel()
		// A probe without a journal entry. A lost probe only delays the detection.
		_, _ = r.nodes.host.Request(ctx, string(key), &wire.ProbeRequest{})
	})
}

// checkLog reads the log as the next activation would. At most one check runs at a time.
func (a *activation) checkLog() {
	if a.opening.checking || !a.machine.Open() || a.self.stopping {
		return
	}
	a.opening.checking = true
	a.rt.tasks.spawn(func() {
		out := a.readLog()
		if !out.permanent { // readable, or a transient failure
			out.err = nil
		}
		a.self.Send(checkedLog{out.err})
	})
}

// checkedLog ends the activation if the log cannot be read again. Its callers retry and get the error
// of the next activation.
func (a *activation) checkedLog(m checkedLog) {
	a.opening.checking = false
	if m.err != nil && !a.machine.Stopped() {
		a.step(machine.AppendLost{Err: fmt.Errorf("log is corrupt: %w", m.err)})
	}
}
