package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/storage"
)

func TestRestingWriters(t *testing.T) {
	const (
		a, b = "0123456789abcdef0123456789abcdef", "00000000000000000000000000000000"
		one  = storage.Nonce("01JD0000000000000000000001")
		two  = storage.Nonce("01JD0000000000000000000002")
	)
	tail := storage.Position{Seq: 7, Hash: storage.Hash{1, 2}}
	synctest.Test(t, func(t *testing.T) {
		r := newResting(time.Minute, time.Now())
		r.put(a, one, tail, "2026-11-21", 5)
		if r.take(b) != nil || r.has(b, one) || r.has(a, two) || !r.has(a, one) {
			t.Error("a writer is mistaken for another")
		}
		w := r.take(a)
		if w == nil || w.name() != one || w.tail != tail || w.indexed() != "2026-11-21" || w.shipped != 5 {
			t.Fatalf("took %+v", w)
		}
		if r.take(a) != nil || r.has(a, one) {
			t.Error("a writer is handed out twice")
		}

		time.Sleep(30 * time.Second)
		r.put(b, two, tail, "", -1)
		r.putBack(a, *w)
		time.Sleep(30 * time.Second)
		r.expire()
		if r.has(a, one) || !r.has(b, two) {
			t.Error("want the first to expire, counted from when it was put, and the second to stay")
		}
		time.Sleep(30 * time.Second)
		if r.take(b) != nil {
			t.Error("a writer is handed out after its time")
		}

		none := newResting(-time.Second, time.Now())
		none.put(a, one, tail, "", -1)
		if none.has(a, one) {
			t.Error("a writer is kept for no time at all")
		}
	})
}
