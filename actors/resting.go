package actors

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// resting holds the writers of conversations that are idle and out of memory. The
// next activation here goes on as the writer at rest, so that it needs no claim, if
// the log still ends where that one left it.
//
// Invariant: no activation uses a writer that is in here. One puts its writer in when
// it passivates, with nothing in flight and nothing owed, and the next takes it out.
//
// It is only memory: nothing rests on it, and a process that dies loses it.
// Safe for concurrent use.
type resting struct {
	keep  time.Duration // from put on; nothing is kept if it is not positive
	began time.Time     // the origin of restingWriter.until

	mu      sync.Mutex
	writers map[restingKey]restingWriter
}

// A restingKey and a restingWriter hold no pointers: there may be very many, and they
// lie in their map alone, which the garbage collector need not look into.
type (
	restingKey    [32]byte // a conversation.Key
	restingWriter struct {
		nonce   [26]byte         // a ULID
		day     [10]byte         // of the newest index entry, zero if there is none
		tail    storage.Position // its last batch, and the log's at that time
		until   time.Duration
		shipped int64 // the last batch whose events are shipped, -1 if none
	}
)

func newResting(keep time.Duration, began time.Time) *resting {
	return &resting{keep: keep, began: began, writers: map[restingKey]restingWriter{}}
}

func restingKeyOf(key conversation.Key) (k restingKey) {
	copy(k[:], key)
	return k
}

func (w *restingWriter) name() storage.Nonce { return storage.Nonce(w.nonce[:]) }

// indexed is the day of the newest index entry, "" if there is none.
func (w *restingWriter) indexed() string { return strings.TrimRight(string(w.day[:]), "\x00") }

// put takes over a claimed writer whose last batch is at tail, the day of its newest
// index entry and the last batch whose events are shipped.
func (r *resting) put(key conversation.Key, nonce storage.Nonce, tail storage.Position, day string, shipped int64) {
	if r.keep <= 0 {
		return
	}
	w := restingWriter{tail: tail, shipped: shipped, until: time.Since(r.began) + r.keep}
	copy(w.nonce[:], nonce)
	copy(w.day[:], day)
	r.putBack(key, w)
}

// putBack returns a writer that was taken and not used.
func (r *resting) putBack(key conversation.Key, w restingWriter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writers[restingKeyOf(key)] = w
}

// take hands the writer of a conversation to its activation, nil if none is kept.
func (r *resting) take(key conversation.Key) *restingWriter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.writers[restingKeyOf(key)]
	if !ok {
		return nil
	}
	delete(r.writers, restingKeyOf(key))
	if w.until <= time.Since(r.began) {
		return nil
	}
	return &w
}

// has reports whether a writer is at rest here.
func (r *resting) has(key conversation.Key, nonce storage.Nonce) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.writers[restingKeyOf(key)]
	return ok && w.name() == nonce
}

// count is how many writers are at rest.
func (r *resting) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writers)
}

// expire drops the writers whose time is up.
func (r *resting) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.began)
	maps.DeleteFunc(r.writers, func(_ restingKey, w restingWriter) bool { return w.until <= now })
	if len(r.writers) == 0 {
		r.writers = map[restingKey]restingWriter{} // a map never shrinks
	}
}
