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

// perWriter approximates the memory of an idle writer in its map and order, in bytes.
const perWriter = 224

// writerCache holds the writers of passivated conversations. The next activation on this node continues as
// the idle writer, without a claim, if the log still ends at that writer's last batch. Beyond the
// limit the oldest entries are dropped.
//
// Invariant: no activation uses a writer that is in here. An activation stores its writer when it
// passivates, with no append in flight and no pending work; the next activation removes it.
//
// The state is a cache that a crash loses. It is safe for concurrent use.
type writerCache struct {
	keep  time.Duration // retention; nothing is kept if it is not positive
	began time.Time     // the origin of idleWriter.until
	most  int64         // limit
	shelf *memory.Shelf // account for their memory

	mu      sync.Mutex
	writers map[writerCacheKey]idleWriter
	order   []writerCacheTurn // in insertion order; may contain removed writers
}

// writerCacheKey and idleWriter hold no pointers, so that the garbage collector skips the map, which
// may be very large.
type (
	writerCacheKey [32]byte // a conversation.Key
	idleWriter     struct {
		nonce   [26]byte         // a ULID
		day     [10]byte         // day of the newest index entry, zero if there is none
		tail    storage.Position // its last batch, then also the last of the log
		until   time.Duration
		shipped int64 // the last batch whose events are shipped, -1 if none
	}
	writerCacheTurn struct {
		key   writerCacheKey
		until time.Duration
	}
)

// newWriterCache returns a cache of at most the given number of bytes.
func newWriterCache(keep time.Duration, began time.Time, shelf *memory.Shelf, bytes int64) *writerCache {
	return &writerCache{keep: keep, began: began, most: bytes / perWriter, shelf: shelf, writers: map[writerCacheKey]idleWriter{}}
}

func writerCacheKeyOf(key conversation.Key) (k writerCacheKey) {
	copy(k[:], key)
	return k
}

func (w *idleWriter) name() storage.Nonce { return storage.Nonce(w.nonce[:]) }

// indexed returns the day of the newest index entry, "" if there is none.
func (w *idleWriter) indexed() string { return strings.TrimRight(string(w.day[:]), "\x00") }

// put adds a claimed writer with its last batch, the day of its newest index entry and the last batch
// whose events are shipped.
func (r *writerCache) put(key conversation.Key, nonce storage.Nonce, tail storage.Position, day string, shipped int64) {
	if r.keep <= 0 {
		return
	}
	w := idleWriter{tail: tail, shipped: shipped, until: time.Since(r.began) + r.keep}
	copy(w.nonce[:], nonce)
	copy(w.day[:], day)
	r.putBack(key, w)
}

// putBack returns an unused writer.
func (r *writerCache) putBack(key conversation.Key, w idleWriter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := writerCacheKeyOf(key)
	if _, ok := r.writers[k]; !ok {
		r.shelf.Add(perWriter)
	}
	r.writers[k] = w
	r.order = append(r.order, writerCacheTurn{k, w.until})
	for int64(len(r.writers)) > r.most {
		if r.holds(r.order[0]) {
			delete(r.writers, r.order[0].key)
			r.shelf.Drop(perWriter)
		}
		r.order = r.order[1:]
	}
}

// holds reports whether the writer of an order entry is still the one in the map. The caller holds mu.
func (r *writerCache) holds(t writerCacheTurn) bool {
	w, ok := r.writers[t.key]
	return ok && w.until == t.until
}

// remove removes a writer. The caller holds mu.
func (r *writerCache) remove(k writerCacheKey) {
	delete(r.writers, k)
	r.shelf.Add(-perWriter)
}

// take removes and returns the writer of a conversation, nil if there is none.
func (r *writerCache) take(key conversation.Key) *idleWriter {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.writers[writerCacheKeyOf(key)]
	if !ok {
		return nil
	}
	r.remove(writerCacheKeyOf(key))
	if w.until <= time.Since(r.began) {
		return nil
	}
	return &w
}

// has reports whether a writer is idle on this node.
func (r *writerCache) has(key conversation.Key, nonce storage.Nonce) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.writers[writerCacheKeyOf(key)]
	return ok && w.name() == nonce
}

// count returns the number of idle writers.
func (r *writerCache) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.writers)
}

// expire drops the expired writers.
func (r *writerCache) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.began)
	for k, w := range r.writers {
		if w.until <= now {
			r.remove(k)
		}
	}
	r.order = slices.DeleteFunc(r.order, func(t writerCacheTurn) bool { return !r.holds(t) })
	if len(r.writers) == 0 {
		r.writers = map[writerCacheKey]idleWriter{} // a map never shrinks
	}
}
