package pending

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := time.Now().Round(0).Add(-time.Hour)
		var timers Timers
		c := NewClock(wall)
		key := conversation.Address{Agent: "chat", ID: "c"}.Key()
		late := Wait{Seq: 5, Until: conversation.TimeOf(wall.Add(time.Hour))}
		timers.Put(key, Suspended{Clock: c, Waits: []Wait{late, {Seq: 7, Until: conversation.TimeOf(wall.Add(time.Minute))}}})
		if timers.knows(storage.TimerRef{Conv: key, Seq: 6}) || !timers.knows(storage.TimerRef{Conv: key, Seq: 7}) || !timers.knows(storage.TimerRef{Conv: key, Seq: 5}) {
			t.Error("want exactly the timers of batches 5 and 7 to be known")
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if due := timers.due(); len(due) != 0 || c.Ahead(wall) != time.Minute {
			t.Errorf("%d timers due too soon; clock is %v ahead", len(due), c.Ahead(wall))
		}
		time.Sleep(time.Nanosecond)
		due := timers.due()
		if len(due) != 1 || due[0].Conv != key || due[0].Seq != 7 || !timers.knows(due[0]) {
			t.Fatalf("due: %+v", due)
		}
		if want := storage.TimerKey(storage.Timer{Conv: key, Seq: 7, Until: conversation.TimeOf(wall.Add(time.Minute))}); due[0].Key != want {
			t.Errorf("key %s, want %s", due[0].Key, want)
		}
		timers.Drop(key, 6)
		if _, ok := timers.Clock(key); !ok || timers.knows(storage.TimerRef{Conv: key, Seq: 5}) {
			t.Error("Drop of an earlier batch ended the wait of batch 7")
		}
		timers.Drop(key, 8)
		if _, ok := timers.Clock(key); ok || timers.Count() != 0 {
			t.Error("conversation still waits after Drop")
		}
		for i := range maxWaits + 1 {
			timers.Put(conversation.Address{Agent: "chat", ID: fmt.Sprint(i)}.Key(), Suspended{Clock: c})
		}
		if n := timers.Count(); n != maxWaits {
			t.Errorf("%d clocks kept, want %d", n, maxWaits)
		}
	})
}
