package actors

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

// perWriter is about what a writer at rest takes in its map and in the order, in bytes.
const perWriter = 224

// resting holds the writers of conversations that are idle and out of memory. The
// next activation here goes on as the writer at rest, so that it needs no claim, if
// the log still ends where that one left it. Those that were put in first go when they
// would be too many.
//
// Invariant: no activation uses a writer that is in here. One puts its writer in when
// it passivates, with nothing in flight and nothing owed, and the next takes it out.
//
// It is only memory: nothing rests on it, and a process that dies loses it.
// Safe for concurrent use.
type resting struct {
	keep  time.Duration // from put on; nothing is kept if it is not positive
	began time.Time     // the origin of restingWriter.until
	most  int64         // how many are kept
	shelf *memory.Shelf // what they are counted on

	mu      sync.Mutex
	writers map[restingKey]restingWriter
	order   []restingTurn // as they were put in; of those taken out some may be left
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
	restingTurn struct {
		key   restingKey
		until time.Duration
	}
)

// newResting returns one that takes at most so many bytes.
func newResting(keep time.Duration, began time.Time, shelf *memory.Shelf, bytes int64) *resting {
	return &resting{keep: keep, began: began, most: bytes / perWriter, shelf: shelf, writers: map[restingKey]restingWriter{}}
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
	k := restingKeyOf(key)
	if _, ok := r.writers[k]; !ok {
		r.shelf.Add(perWriter)
	}
	r.writers[k] = w
	r.order = append(r.order, restingTurn{k, w.until})
	for int64(len(r.writers)) > r.most {
		if r.holds(r.order[0]) {
			delete(r.writers, r.order[0].key)
			r.shelf.Drop(perWriter)
		}
		r.order = r.order[1:]
	}
}

// holds reports whether a writer is the one that was put in then; mu is held.
func (r *resting) holds(t restingTurn) bool {
	w, ok := r.writers[t.key]
	return ok && w.until == t.until
}

// remove takes a writer out; mu is held.
func (r *resting) remove(k restingKey) {
	delete(r.writers, k)
	r.shelf.Add(-perWriter)
}

// take hands the writer of a conversation to its activation, nil if none is kept.
func (r *resting) take(key conversation.Key) *restingWriter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.writers[restingKeyOf(key)]
	if !ok {
		return nil
	}
	r.remove(restingKeyOf(key))
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
	for k, w := range r.writers {
		if w.until <= now {
			r.remove(k)
		}
	}
	r.order = slices.DeleteFunc(r.order, func(t restingTurn) bool { return !r.holds(t) })
	if len(r.writers) == 0 {
		r.writers = map[restingKey]restingWriter{} // a map never shrinks
	}
}
