package actors

import (
	"time"

	"github.com/parleyrun/parley/actors/internal/machine"
	"github.com/parleyrun/parley/actors/internal/pending"
	"github.com/parleyrun/parley/storage"
)

// timerRetry is the delay before storing a timer again after a failure.
const timerRetry = time.Second

// storeTimer stores the timer of a suspended submission; [machine.TimerStored] confirms it. It retries
// until the activation ends. Until it succeeds, the journal lists the conversation.
func (a *activation) storeTimer(e machine.StoreTimer) {
	t := storage.Timer{Conv: a.key, Seq: int64(e.At), Until: e.Until}
	all, _ := a.machine.Waits()
	suspended := pending.Suspended{Clock: a.clock}
	for _, w := range all {
		suspended.Waits = append(suspended.Waits, pending.Wait{Seq: int64(w.At), Until: w.Until})
	}
	a.rt.sweeper.Timers.Put(a.key, suspended)
	a.rt.tasks.spawn(func() {
		for {
			err := storage.PutTimer(a.self.ctx, a.rt.bucket, t)
			if err == nil {
				a.self.Send(machine.TimerStored{Timer: e})
				return
			}
			if a.self.ctx.Err() == nil {
				a.log.Error("store timer", "offset", int64(e.At), "err", err)
			}
			select {
			case <-time.After(timerRetry):
			case <-a.self.ctx.Done():
				return
			}
		}
	})
}

// timers are the timers of a machine. It belongs to the activation's goroutine.
type timers struct {
	fire    func(timerFired) // sends to the activation
	slots   [machine.Timers]timerSlot
	retries map[int]*time.Timer // retry timers of failed model calls, by gen
}

type timerSlot struct {
	t *time.Timer
	n int // sequence number of the last set
}

// timerFired is the message of a timer that fired.
type timerFired struct {
	timer machine.Timer
	n     int
}

// set sets a timer and returns the message it will send.
func (t *timers) set(e machine.SetTimer) timerFired {
	if e.Timer == machine.TimerRetry {
		if t.retries == nil {
			t.retries = map[int]*time.Timer{}
		}
		fired := timerFired{timer: e.Timer, n: e.Gen}
		t.retries[e.Gen] = time.AfterFunc(e.After, func() { t.fire(fired) })
		return fired
	}
	slot := &t.slots[e.Timer]
	if slot.t != nil {
		slot.t.Stop()
	}
	slot.n++
	fired := timerFired{e.Timer, slot.n}
	slot.t = time.AfterFunc(e.After, func() { t.fire(fired) })
	return fired
}

// fired returns the input for a timer that fired, unless it was reset since.
func (t *timers) fired(m timerFired) (in machine.Tick, ok bool) {
	if m.timer == machine.TimerRetry {
		delete(t.retries, m.n)
		return machine.Tick{Timer: m.timer, Gen: m.n}, true
	}
	return machine.Tick{Timer: m.timer}, t.slots[m.timer].n == m.n
}

func (t *timers) stop() {
	for i := range t.slots {
		if t.slots[i].t != nil {
			t.slots[i].t.Stop()
		}
	}
	for _, retry := range t.retries {
		retry.Stop()
	}
}
