package actors

import (
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// clock tells a conversation the time that its waits go by: the wall clock's when it was
// made, and what has passed since by the monotonic clock. Nobody can set it.
type clock struct {
	wall time.Time // without a monotonic reading
	made time.Time // likewise by the monotonic clock
}

func (r *Runtime) newClock() clock { return clock{wall: r.wall().Round(0), made: time.Now()} }

func (c clock) now() time.Time { return c.wall.Add(time.Since(c.made)) }

// ahead is what the clock shows more than the wall clock, which somebody may have set.
func (c clock) ahead(wall time.Time) time.Duration {
	return c.now().Sub(wall.Round(0)).Round(time.Millisecond)
}

// maxWaits bounds the conversations that a node parked and keeps the clocks of, some 200
// bytes each. Those beyond go by the wall clock.
const maxWaits = 1 << 16

// waits are the conversations that this process has parked, with their clocks, which
// outlive the activations.
type waits struct {
	mu    sync.Mutex
	byKey map[conversation.Key]parkedTurn
}

// parkedTurn is what the batch at seq waits for.
type parkedTurn struct {
	clock clock
	seq   int64
	until conversation.Time
}

func (p parkedTurn) due() bool { return conversation.TimeOf(p.clock.now()) >= p.until }

// put notes that a conversation waits.
func (w *waits) put(key conversation.Key, p parkedTurn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.byKey[key]; ok || len(w.byKey) < maxWaits {
		if w.byKey == nil {
			w.byKey = make(map[conversation.Key]parkedTurn)
		}
		w.byKey[key] = p
	}
}

// clock returns that of a conversation that waits.
func (w *waits) clock(key conversation.Key) (clock, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.byKey[key]
	return p.clock, ok
}

// drop forgets a conversation that waits for nothing up to a batch any more.
func (w *waits) drop(key conversation.Key, seq int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.byKey[key]; ok && p.seq <= seq {
		delete(w.byKey, key)
	}
}

// knows reports whether a stored timer is that of a conversation that was parked here.
func (w *waits) knows(ref storage.TimerRef) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.byKey[ref.Conv]
	return ok && p.seq == ref.Seq
}

// due returns the timers whose time has come by the clocks of their conversations.
func (w *waits) due() []storage.TimerRef {
	w.mu.Lock()
	defer w.mu.Unlock()
	var refs []storage.TimerRef
	for key, p := range w.byKey {
		if p.due() {
			t := storage.Timer{Conv: key, Seq: p.seq, Until: p.until}
			refs = append(refs, storage.TimerRef{Key: storage.TimerKey(t), Conv: key, Seq: p.seq})
		}
	}
	return refs
}

func (w *waits) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byKey)
}
