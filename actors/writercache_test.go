package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

func TestIdleWriters(t *testing.T) {
	const (
		a, b = "0123456789abcdef0123456789abcdef", "00000000000000000000000000000000"
		one  = storage.Nonce("01JD0000000000000000000001")
		two  = storage.Nonce("01JD0000000000000000000002")
	)
	tail := storage.Position{Seq: 7, Hash: storage.Hash{1, 2}}
	synctest.Test(t, func(t *testing.T) {
		idle := memory.New(0).Idle(0)
		shelf := idle.Shelf("writers")
		r := newWriterCache(time.Minute, time.Now(), shelf, 10*perWriter)
		r.put(a, one, tail, "2026-11-21", 5)
		if r.take(b) != nil || r.has(b, one) || r.has(a, two) || !r.has(a, one) {
			t.Error("got another writer's match")
		}
		w := r.take(a)
		if w == nil || w.name() != one || w.tail != tail || w.indexed() != "2026-11-21" || w.shipped != 5 {
			t.Fatalf("got writer %+v", w)
		}
		if r.take(a) != nil || r.has(a, one) {
			t.Error("got the same writer twice")
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
			t.Error("got an expired writer")
		}

		if u := idle.Usage()[0]; u.Held != 0 {
			t.Errorf("got %d bytes of no writers", u.Held)
		}

		none := newWriterCache(-time.Second, time.Now(), shelf, 10*perWriter)
		none.put(a, one, tail, "", -1)
		if none.has(a, one) {
			t.Error("got a writer kept with zero retention")
		}
	})
}

// TestIdleWriterLimit: beyond the limit, the oldest writers are dropped.
func TestIdleWriterLimit(t *testing.T) {
	const nonce = storage.Nonce("01JD0000000000000000000001")
	key := func(i int) conversation.Key { return conversation.Key(fmt.Sprintf("%032d", i)) }
	synctest.Test(t, func(t *testing.T) {
		idle := memory.New(0).Idle(0)
		r := newWriterCache(time.Minute, time.Now(), idle.Shelf("writers"), 3*perWriter+1)
		put := func(i int) {
			time.Sleep(time.Second)
			r.take(key(i))
			r.put(key(i), nonce, storage.Start(), "", -1)
		}
		for _, i := range []int{0, 1, 2, 0, 0} {
			put(i)
		}
		r.putBack(key(2), *r.take(key(2))) // It was not used.
		put(3)
		put(4)
		for i, want := range []bool{true, false, false, true, true} {
			if r.has(key(i), nonce) != want {
				t.Errorf("writer %d: got idle %v, want %v", i, !want, want)
			}
		}
		if u := idle.Usage()[0]; u.Held != 3*perWriter || u.Crowded != 2 {
			t.Errorf("got usage %+v, want three, and two evictions", u)
		}
		put(0)
		r.expire()
		if len(r.order) != 3 {
			t.Errorf("got %d order entries for three writers", len(r.order))
		}
	})
}
