package actors

import (
	"context"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/conversation"
)

// findTail finds the end of the log with one LIST. The answer arrives as [machine.TailRead] within
// AdmitTimeout.
func (a *activation) findTail(e machine.ReadTail) {
	a.rt.tasks.spawn(func() {
		if !readsLog() {
			a.self.Send(machine.TailRead{Tail: e.After})
			return
		}
		ctx, cancel := context.WithTimeout(a.self.ctx, a.rt.opts.AdmitTimeout)
		defer cancel()
		tail, err := a.rt.logs.Tail(ctx, a.key, int64(e.After))
		a.self.Send(machine.TailRead{Tail: conversation.Offset(tail), Err: err})
	})
}
