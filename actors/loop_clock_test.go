package actors_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
)

// setClock gives later nodes a wall clock that the returned offset shifts. It advances with the
// monotonic clock.
func (l *loop) setClock() *atomic.Int64 {
	var off atomic.Int64
	l.fleet.Wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(off.Load())) }
	return &off
}

// TestClockAdjustment adjusts the wall clock of a node while a call is suspended, in memory or passivated.
// The call continues once the requested duration has passed, to the minute; then it waits once more.
func TestClockAdjustment(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -time.Hour, "ahead": time.Hour} {
		for _, wait := range []time.Duration{20 * time.Second, 40 * time.Second, 20 * time.Minute} {
			inLoop(t, func(t *testing.T, l *loop) {
				off := l.setClock()
				k := &work{}
				a := chatAgent(reminds(k, wait))
				n := l.run(part{opts: agents(a), vendor: onlyModel(inTurn(toolCalls("remind"), replies("done"), toolCalls("remind"), replies("done")))})
				defer func() { _ = n.stop() }()
				for round := range 2 {
					began := time.Now()
					n.admit(chat("c"), string(rune('a'+round)), "go")
					time.Sleep(min(wait/2, 8*time.Minute))
					off.Add(int64(step))
					l.until("the end of the wait", func() bool { return k.counts()["call"] == round+1 })
					if took := time.Since(began); took < wait || took > wait+time.Minute+2*time.Second {
						t.Errorf("%s, %v: got %v in round %d", name, wait, took, round)
					}
					l.completes(chat("c"), round+1)
				}
			})
		}
	}
}

// TestClockOfTheNextProcess: a suspended call continues by the wall clock of the next process.
func TestClockOfTheNextProcess(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		off := l.setClock()
		k := &work{}
		opts, c := agents(chatAgent(reminds(k, time.Hour))), onlyModel(inTurn(toolCalls("remind"), replies("done")))
		first := l.run(part{opts: opts, vendor: c})
		began := time.Now()
		first.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		first.crash()
		off.Store(int64(30 * time.Minute))
		l.run(part{opts: opts, vendor: c})
		l.completes(chat("c"), 1)
		if took := time.Since(began); took < 30*time.Minute || took > 32*time.Minute {
			t.Errorf("got %v by a clock half an hour ahead", took)
		}
	})
}

// TestSuspendedIsCounted: a node keeps the clock of a conversation while it is suspended.
func TestSuspendedIsCounted(t *testing.T) {
	inLoop(t, func(t *testing.T, l *loop) {
		var k work
		tool := agent.Tool(reminds(&k, 10*time.Minute))
		n := l.run(part{opts: agents(chatAgent(tool)), vendor: onlyModel(inTurn(toolCalls("remind"), replies("done")))})
		n.admit(chat("c"), "1", "go")
		l.waitSuspended(chat("c"), 1)
		if st := n.rt.Status(); st.Suspended != 1 {
			t.Errorf("got %d suspended", st.Suspended)
		}
		l.completes(chat("c"), 1)
		time.Sleep(7 * time.Minute) // it leaves memory
		synctest.Wait()
		if st := n.rt.Status(); st.Suspended != 0 || st.Active != 0 {
			t.Errorf("got %d suspended, %d active", st.Suspended, st.Active)
		}
		if got := len(only[*conversation.Suspended](l.records(chat("c")))); got != 1 {
			t.Errorf("got %d suspensions", got)
		}
	})
}
