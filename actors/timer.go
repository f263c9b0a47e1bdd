package actors

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/busy"
	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/wire"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// parkAfter is how long a call must want to sleep for its run to end. What is shorter
	// costs less in memory than by a batch, a timer and another run.
	parkAfter = 30 * time.Second
	// timerRetry is the pause before a timer is stored again that the bucket refused.
	timerRetry = time.Second
)

// errStillRuns says that a function goes on after its call was put away.
var errStillRuns = errors.New("the tool did not stop when it had to wait")

// parking is the end of a run of a call that waits for a time.
type parking struct {
	stop   context.CancelCauseFunc // ends the context of the function
	giveUp context.CancelCauseFunc // ends the patience with it

	mu    sync.Mutex
	until time.Time // zero as long as the run has not ended
	grace *time.Timer
}

// park ends the run, unless it is short enough to be waited for. Of more than one time
// the first counts.
func (p *parking) park(until time.Time) bool {
	if time.Until(until) < parkAfter {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until.IsZero() {
		p.grace = time.AfterFunc(toolGrace, func() { p.giveUp(errStillRuns) })
	}
	if p.until.IsZero() || until.Before(p.until) {
		p.until = until
	}
	p.stop(agent.ErrParked)
	return true
}

// end stops what park has begun, and returns until when the call waits, if it does.
func (p *parking) end() (until time.Time, parked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grace != nil {
		p.grace.Stop()
	}
	return p.until, !p.until.IsZero()
}

// forget makes the run one that has failed: its function goes on.
func (p *parking) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
}

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

// timeOf is a time of this process by the clock of the conversation.
func (a *activation) timeOf(t time.Time) conversation.Time {
	return conversation.TimeOf(a.clock.Now().Add(time.Until(t)).Round(time.Millisecond))
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
