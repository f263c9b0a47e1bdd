package actors

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/busy"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/storage"
)

// timerRetry is the pause before a timer is stored again that the bucket refused.
const timerRetry = time.Second

// storeTimer stores the timer of a parked submission; [machine.TimerStored] says so. It
// is tried until the activation ends: until then the journal lists the conversation.
func (a *activation) storeTimer(e machine.StoreTimer) {
	t := storage.Timer{Conv: a.key, Seq: int64(e.At), Until: e.Until}
	a.rt.busy.Timers.Put(a.key, busy.Parked{Clock: a.clock, Seq: t.Seq, Until: t.Until})
	a.rt.spawn(func() {
		for {
			err := storage.PutTimer(a.ctx, a.rt.bucket, t)
			if err == nil {
				a.tell(machine.TimerStored{At: e.At})
				return
			}
			if a.ctx.Err() == nil {
				a.log.Error("store timer", "offset", int64(e.At), "err", err)
			}
			select {
			case <-time.After(timerRetry):
			case <-a.ctx.Done():
				return
			}
		}
	})
}

// forgetWait drops the clock of a conversation that is left without a wait.
func (a *activation) forgetWait() {
	state := a.machine.State()
	if state == nil || a.writer == nil {
		return // It was not opened.
	}
	if queue := state.Unsettled(); len(queue) == 0 || queue[0].Parked == nil {
		a.rt.busy.Timers.Drop(a.key, int64(state.Head()))
	}
}

func wakeReply(v machine.Woken) proto.Message {
	switch {
	case v.Unknown:
		return &wire.WakeReply{Answer: wire.WakeReply_UNKNOWN}
	case v.Early:
		return &wire.WakeReply{Answer: wire.WakeReply_EARLY}
	}
	return &wire.WakeReply{Answer: wire.WakeReply_OVER}
}
