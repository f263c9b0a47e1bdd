package actors

import (
	"context"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// findTail finds the end of the log with one LIST. The answer arrives as [machine.Looked] within
// AdmitTimeout.
func (a *activation) findTail(e machine.Look) {
	a.rt.tasks.spawn(func() {
		if !looksAtLog() {
			a.self.Send(machine.Looked{Tail: e.After})
			return
		}
		ctx, cancel := context.WithTimeout(a.self.ctx, a.rt.opts.AdmitTimeout)
		defer cancel()
		tail, err := a.rt.logs.Tail(ctx, a.key, int64(e.After))
		a.self.Send(machine.Looked{Tail: conversation.Offset(tail), Err: err})
	})
}
