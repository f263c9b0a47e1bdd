package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

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
	a.rt.waits.put(a.key, parkedTurn{clock: a.clock, seq: t.Seq, until: t.Until})
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
	return conversation.TimeOf(a.clock.now().Add(time.Until(t)).Round(time.Millisecond))
}

// forgetWait drops the clock of a conversation that is left without a wait.
func (a *activation) forgetWait() {
	state := a.machine.State()
	if state == nil || a.writer == nil {
		return // It was not opened.
	}
	if queue := state.Unsettled(); len(queue) == 0 || queue[0].Parked == nil {
		a.rt.waits.drop(a.key, int64(state.Head()))
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

// timerLoop asks about the timers that are due, at once and at every full minute by the
// wall clock, until ctx ends. Those of conversations that this process parked are due by
// their clocks, whatever the wall clock shows meanwhile. Every node does: asking twice does no harm, and whoever
// comes later finds most of them deleted.
func (r *Runtime) timerLoop(ctx context.Context) {
	for {
		if err := r.ringTimers(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("ring timers", "err", err)
		}
		next := time.Now().Truncate(time.Minute).Add(time.Minute)
		t := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// ringTimers asks about every timer that is due, but those of conversations that are set
// aside, which stay. One that is not answered does not keep the others from being asked
// about.
func (r *Runtime) ringTimers(ctx context.Context) error {
	left := func(ref storage.TimerRef) bool { return r.aside.refused(ref.Conv) != nil }
	failed := r.ringAll(ctx, slices.DeleteFunc(r.waits.due(), left))
	err := storage.DueTimers(ctx, r.bucket, conversation.TimeOf(r.wall()), func(page []storage.TimerRef) error {
		page = slices.DeleteFunc(slices.DeleteFunc(page, r.waits.knows), left)
		failed = errors.Join(failed, r.ringAll(ctx, page))
		return ctx.Err()
	})
	return errors.Join(err, failed)
}

func (r *Runtime) ringAll(ctx context.Context, refs []storage.TimerRef) error {
	var g errgroup.Group
	g.SetLimit(pokesAtOnce)
	for _, ref := range refs {
		g.Go(func() error { return r.ring(ctx, ref) })
	}
	return g.Wait()
}

// ring asks the owner about a timer, which wakes the conversation if its time has come,
// and deletes the timer once it is needed no more.
func (r *Runtime) ring(ctx context.Context, ref storage.TimerRef) error {
	limited, cancel := context.WithTimeout(ctx, pokeTimeout)
	defer cancel()
	m, err := r.host.Request(limited, string(ref.Conv), &wire.WakeRequest{Seq: ref.Seq})
	if err != nil {
		return fmt.Errorf("wake %s: %w", ref.Conv, err)
	}
	reply, ok := m.(*wire.WakeReply)
	switch {
	case !ok || reply.GetAnswer() == wire.WakeReply_UNKNOWN:
		return fmt.Errorf("wake %s: not answered", ref.Conv)
	case reply.GetAnswer() == wire.WakeReply_EARLY: // its owner's clock is behind
		return nil
	}
	r.waits.drop(ref.Conv, ref.Seq)
	limited, cancel = context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteTimer(limited, r.bucket, ref)
}
