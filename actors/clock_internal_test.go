package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Now().Round(0).Add(-time.Hour)
		r := &Runtime{wall: func() time.Time { return wall }}
		c := r.newClock()
		key := conversation.Address{Agent: "chat", ID: "c"}.Key()
		r.waits.put(key, parkedTurn{clock: c, seq: 7, until: conversation.TimeOf(wall.Add(time.Minute))})
		if r.waits.knows(storage.TimerRef{Conv: key, Seq: 6}) || !r.waits.knows(storage.TimerRef{Conv: key, Seq: 7}) {
			t.Error("the timer of batch 7 is known, and no other")
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if due := r.waits.due(); len(due) != 0 || c.ahead(wall) != time.Minute {
			t.Errorf("%d due too soon, the clock is %v ahead", len(due), c.ahead(wall))
		}
		time.Sleep(time.Nanosecond)
		due := r.waits.due()
		if len(due) != 1 || due[0].Conv != key || due[0].Seq != 7 || !r.waits.knows(due[0]) {
			t.Fatalf("due: %+v", due)
		}
		if want := storage.TimerKey(storage.Timer{Conv: key, Seq: 7, Until: conversation.TimeOf(wall.Add(time.Minute))}); due[0].Key != want {
			t.Errorf("key %s, want %s", due[0].Key, want)
		}
		r.waits.drop(key, 6)
		if _, ok := r.waits.clock(key); !ok {
			t.Error("what happened before batch 7 ends its wait")
		}
		r.waits.drop(key, 8)
		if _, ok := r.waits.clock(key); ok || r.waits.size() != 0 {
			t.Error("it waits on")
		}
		for i := range maxWaits + 1 {
			r.waits.put(conversation.Address{Agent: "chat", ID: fmt.Sprint(i)}.Key(), parkedTurn{clock: c})
		}
		if n := r.waits.size(); n != maxWaits {
			t.Errorf("%d clocks are kept", n)
		}
	})
}
