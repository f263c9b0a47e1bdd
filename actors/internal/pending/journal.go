package pending

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/parleyrun/parley/actors/internal/series"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// Linger is the time that an idle conversation stays listed, so that using it again soon costs no
	// journal write.
	Linger = time.Second
	// journalRetry is the pause after a failed journal write.
	journalRetry = time.Second
	// gatherOpenings delays a journal write after an opening begins or ends, because a sweep opens
	// many at once.
	gatherOpenings = time.Millisecond
	// deleteTimeout bounds the deletion of obsolete journals. A hung request must delay neither the
	// next write nor the next sweep.
	deleteTimeout = 5 * time.Second
)

// ID identifies an entry: a conversation and the nonce of a writer.
type ID struct {
	Conv  conversation.Key
	Nonce storage.Nonce
}

func idOf(e storage.JournalEntry) ID { return ID{e.Conv, e.Nonce} }

// unlisted is the value of entry.first while no journal lists the entry.
const unlisted = math.MaxInt64

// compare orders entries, so that equal sets have equal bytes and waiters are called in a fixed order.
func (id ID) compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Conv, other.Conv), cmp.Compare(id.Nonce, other.Nonce))
}

// entry is a conversation of the set. Invariant: while it is in the set, all journals from first to
// the newest list it.
type entry struct {
	id           ID
	first        int64         // first journal that lists it, or unlisted
	leaving      *list.Element // element of Journal.leaving, or nil
	leavingSince time.Time
	withheld     int64 // sequence number in Journal.withheld, or 0
	gone         bool  // no longer in the set
}

// withheldEntry is a withheld entry at the time that mayLeave is called for it.
type withheldEntry struct {
	*entry
	n int64 // value of entry.withheld at that time
}

// waiter is called once its entry is listed. An opening whose entry is removed in between is listed
// again while still returns true. That happens because an idle writer has one id for all activations:
// the end of one may remove the entry of the next.
type waiter struct {
	e     *entry
	done  func()
	still func() bool // nil for a writer, whose entry is removed with its work
}

// Journal is the pending-work journal of this node: the set of its conversations with unsettled work.
// It is kept in the bucket as numbered objects, so that other nodes find it after a crash.
//
// Guarantees:
//
//  1. List calls back once the writer is in the newest landed journal and in the one in flight,
//     if any.
//  2. Numbers only grow, and the bytes under a number never change. One write is in flight. It is
//     repeated with the same bytes until it lands, or abandoned for the next number if the bucket
//     refuses it.
//  3. Number n-1 is deleted only after n has landed.
//  4. An entry is removed only if its own writer reports a durable idle state and mayLeave reports
//     that its events are stored or will be found, or if its conversation's owner has answered a
//     probe. A writer that is fenced or steps down does not remove it.
//
// Safe for concurrent use. Run is the only goroutine that writes; it waits for the one that deletes.
type Journal struct {
	bucket storage.Bucket
	member string
	log    *slog.Logger

	mu      sync.Mutex
	entries map[ID]*entry
	set     []storage.JournalEntry // journal entries of entries, sorted
	fresh   []*entry               // not listed by any journal yet
	leaving list.List              // of *entry: about to be removed, newest last
	// withheld are idle, but nothing else records their events yet.
	withheld  map[*entry]bool
	withheldN int64 // last value of entry.withheld
	// mayLeave is nil if every entry may be removed.
	mayLeave func(conversation.Key) bool
	waiting  []waiter // for the next write
	inFlight []waiter // for the write in flight
	numbers  series.Series
	flushNow bool      // the next write does not wait for leaving entries
	gathered time.Time // earliest time of the next write
	dirty    bool      // the set differs from the last write, apart from leaving entries
	kick     chan struct{}

	// The fields below belong to Run.
	writer   *storage.JournalWriter
	snapshot []storage.JournalEntry // the set of the write in flight
	deleting chan int64             // receives the lowest number left after a deletion; nil if none runs
}

// NewJournal returns the empty journal of an incarnation.
func NewJournal(b storage.Bucket, member string, log *slog.Logger) *Journal {
	return &Journal{
		bucket: b, member: member, log: log, entries: map[ID]*entry{}, withheld: map[*entry]bool{}, numbers: series.Begin(),
		kick: make(chan struct{}, 1), writer: storage.NewJournalWriter(b),
	}
}

// HoldUntil keeps idle entries listed until may returns true for them. may must not block. HoldUntil
// is called before the first List.
func (j *Journal) HoldUntil(may func(conversation.Key) bool) { j.mayLeave = may }

// Member returns the incarnation that owns the journal.
func (j *Journal) Member() string { return j.member }

// List lists a writer at a position and calls done once it is listed, from a goroutine of the journal
// or before List returns.
func (j *Journal) List(id ID, seq int64, done func()) {
	if !j.awaits(id) {
		done()
		done = func() {}
	}
	j.mu.Lock()
	e := j.entry(id)
	if e == nil {
		e = j.add(storage.JournalEntry{Conv: id.Conv, Nonce: id.Nonce, Seq: seq})
	}
	if j.opens(id.Conv) { // The end of the opening comes at the same time and joins this write.
		j.gather()
	}
	j.await(waiter{e: e, done: done})
}

// opens reports whether the set has an opening of a conversation. The caller holds mu.
func (j *Journal) opens(conv conversation.Key) bool {
	at, _ := j.find(ID{Conv: conv})
	for _, e := range j.set[at:] {
		if e.Conv != conv {
			break
		}
		if e.Opening {
			return true
		}
	}
	return false
}

// Opening lists that a conversation is about to be opened and calls done as List does. The entry is no
// pending work. It records which conversations a crashed node were being opened.
func (j *Journal) Opening(id ID, done func()) {
	j.mu.Lock()
	j.await(waiter{e: j.opening(id), done: done})
}

// opening returns the entry of a conversation that is about to be opened. The caller holds mu.
func (j *Journal) opening(id ID) *entry {
	e := j.entries[id]
	if e == nil {
		e = j.add(storage.JournalEntry{Conv: id.Conv, Nonce: id.Nonce, Seq: -1, Opening: true})
		j.gather()
	}
	return e
}

// OpeningListed is Opening, and waits until the entry is listed.
func (j *Journal) OpeningListed(ctx context.Context, id ID) error {
	listed := make(chan struct{})
	j.mu.Lock()
	j.await(waiter{j.opening(id), func() { close(listed) }, func() bool { return ctx.Err() == nil }})
	select {
	case <-listed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("list opening: %w", ctx.Err())
	}
}

// Opened removes the entry of Opening and reports whether there was one. The caller signals the
// journal soon: as long as the entry is listed, a crash with another cause makes the conversation a
// suspect.
func (j *Journal) Opened(id ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	if e == nil {
		return false
	}
	j.remove(e)
	j.dirty, j.flushNow = true, j.flushNow || e.first <= j.numbers.Newest // else it was never listed
	j.gather()
	return true
}

// gather delays the next write so that others join it. The caller holds mu.
func (j *Journal) gather() {
	if now := time.Now(); !now.Before(j.gathered) {
		j.gathered = now.Add(gatherOpenings)
	}
}

// await calls w.done once its entry is listed. The caller holds mu; await releases it.
func (j *Journal) await(w waiter) {
	j.stay(w.e)
	switch {
	case j.numbers.Behind || w.e.first > j.numbers.Newest: // not listed, or only in an abandoned write
		j.waiting = append(j.waiting, w)
	case w.e.first > j.numbers.Landed:
		j.inFlight = append(j.inFlight, w)
		j.mu.Unlock()
		return
	default:
		j.mu.Unlock()
		w.done()
		return
	}
	j.mu.Unlock()
	j.Signal()
}

// Unlist removes a writer whose idle state is durable, as soon as its events are stored or will be
// found.
func (j *Journal) Unlist(id ID) {
	j.mu.Lock()
	e := j.entry(id)
	first := false
	var held withheldEntry
	switch {
	case e == nil || e.leaving != nil:
	case j.mayLeave == nil:
		first = j.depart(e)
	default: // Register before calling mayLeave, so that Release finds it if the answer changes.
		j.stay(e)
		j.withheldN++
		e.withheld, j.withheld[e] = j.withheldN, true
		held = withheldEntry{e, e.withheld}
	}
	j.mu.Unlock()
	if held.entry != nil && j.mayLeave(id.Conv) {
		j.free(held)
	}
	// With earlier leaving entries, Run has a timer already.
	if first {
		j.Signal()
	}
}

// depart moves an entry to the leaving ones and reports whether it is the only one. The caller holds
// mu.
func (j *Journal) depart(e *entry) bool {
	j.stay(e)
	e.leaving, e.leavingSince = j.leaving.PushBack(e), time.Now()
	return j.leaving.Len() == 1
}

// Release removes the withheld entries that may leave now.
func (j *Journal) Release() {
	var held []withheldEntry
	j.mu.Lock()
	for e := range j.withheld {
		held = append(held, withheldEntry{e, e.withheld})
	}
	j.mu.Unlock()
	held = slices.DeleteFunc(held, func(a withheldEntry) bool { return !j.mayLeave(a.id.Conv) })
	slices.SortFunc(held, func(a, b withheldEntry) int { return a.id.compare(b.id) })
	j.free(held...)
}

// free moves entries to the leaving ones, unless they were listed again after the call of mayLeave.
func (j *Journal) free(held ...withheldEntry) {
	first := false
	j.mu.Lock()
	for _, a := range held {
		if a.withheld == a.n {
			first = j.depart(a.entry) || first
		}
	}
	j.mu.Unlock()
	if first {
		j.Signal()
	}
}

// Answered removes an entry whose owner has answered a probe.
func (j *Journal) Answered(id ID) {
	j.mu.Lock()
	if e := j.entries[id]; e != nil {
		j.remove(e)
		j.dirty = true
	}
	j.mu.Unlock()
	j.Signal()
}

// Held returns the entries of the set.
func (j *Journal) Held() []storage.JournalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.set)
}

// listsOnly reports whether the set has no entries of other conversations.
func (j *Journal) listsOnly(key conversation.Key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !slices.ContainsFunc(j.set, func(e storage.JournalEntry) bool { return e.Conv != key })
}

// Size returns the number of entries, and the number of those that are not about to be removed.
func (j *Journal) Size() (all, pending int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.set), len(j.set) - j.leaving.Len() - len(j.withheld)
}

// add adds an entry to the set. The caller holds mu, as for the next four functions.
func (j *Journal) add(as storage.JournalEntry) *entry {
	id := idOf(as)
	e := &entry{id: id, first: unlisted}
	at, _ := j.find(id)
	j.set = slices.Insert(j.set, at, as)
	j.entries[id] = e
	j.fresh = append(j.fresh, e)
	j.dirty = true
	return e
}

func (j *Journal) remove(e *entry) {
	j.stay(e)
	at, _ := j.find(e.id)
	j.set = slices.Delete(j.set, at, at+1)
	delete(j.entries, e.id)
	e.gone = true
}

// find returns the index of an entry in the set, or its insertion point.
func (j *Journal) find(id ID) (int, bool) {
	return slices.BinarySearchFunc(j.set, id, func(e storage.JournalEntry, id ID) int {
		return idOf(e).compare(id)
	})
}

// stay cancels a pending removal of an entry.
func (j *Journal) stay(e *entry) {
	if e.leaving != nil {
		j.leaving.Remove(e.leaving)
		e.leaving = nil
	}
	if e.withheld != 0 {
		e.withheld = 0
		delete(j.withheld, e)
	}
}

// leave removes the entries that have been leaving for at least linger.
func (j *Journal) leave(linger time.Duration) {
	for el := j.leaving.Front(); el != nil; el = j.leaving.Front() {
		e := el.Value.(*entry)
		if linger > 0 && time.Since(e.leavingSince) < linger {
			return
		}
		j.remove(e)
	}
}

// Signal makes Run check for a due write. It does not block.
func (j *Journal) Signal() { signal(j.kick) }

// signal sends on ch, whose capacity is 1, unless a signal is pending. It does not block.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Run writes journals until ctx ends.
func (j *Journal) Run(ctx context.Context) {
	defer func() { j.endDeletion() }()
	for {
		var linger <-chan time.Time
		wait, ready := j.due()
		if ready {
			if !j.write(ctx) {
				return
			}
			continue
		}
		var t *time.Timer
		if wait > 0 {
			t = time.NewTimer(wait)
			linger = t.C
		}
		select {
		case <-ctx.Done():
		case <-j.kick:
		case <-linger:
		case n := <-j.deleting:
			j.deleted(n)
			j.sweepOwn(ctx)
		}
		if t != nil {
			t.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// due reports whether a write is due now, or the time until leaving entries need one; 0 is never.
func (j *Journal) due() (wait time.Duration, ready bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if wait := time.Until(j.gathered); wait > 0 {
		return wait, false
	}
	if len(j.waiting) > 0 || j.numbers.Behind || j.flushNow {
		return 0, true
	}
	last := j.leaving.Back()
	if last != nil {
		wait = max(0, Linger-time.Since(last.Value.(*entry).leavingSince))
	}
	return wait, wait == 0 && (j.dirty || last != nil)
}

// write stores the set under the next number and reports whether Run continues.
func (j *Journal) write(ctx context.Context) bool {
	next := j.compose()
	err := j.store(ctx, next)
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		j.log.Error("write pending-work journal failed", "member", j.member, "n", next.N, "err", err)
		j.abandon()
		select {
		case <-time.After(journalRetry):
		case <-ctx.Done():
			return false
		}
		return true
	}
	for _, w := range j.land(next.N) {
		w.done()
	}
	j.sweepOwn(ctx)
	return true
}

// compose takes the snapshot of the set for the next number.
func (j *Journal) compose() storage.Journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leave(Linger)
	n := j.numbers.Next()
	for _, e := range j.fresh {
		e.first = n
	}
	clear(j.fresh)
	j.fresh = j.fresh[:0]
	j.inFlight, j.waiting = append(j.inFlight, j.waiting...), nil
	j.dirty, j.flushNow = false, false
	j.snapshot = append(j.snapshot[:0], j.set...)
	return storage.Journal{Member: j.member, N: n, Entries: j.snapshot}
}

// land records that journal n landed and returns its waiters.
func (j *Journal) land(n int64) []waiter {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.Land(n)
	listed := slices.DeleteFunc(j.inFlight, func(w waiter) bool {
		if w.e.gone && w.still != nil && w.still() {
			w.e = j.opening(w.e.id)
			j.waiting = append(j.waiting, w)
			return true
		}
		return w.e.gone
	})
	j.inFlight = nil
	slices.SortStableFunc(listed, func(a, b waiter) int { return a.e.id.compare(b.e.id) })
	return listed
}

// abandon skips the number in flight. Its outcome is unknown, so no waiter relies on it.
func (j *Journal) abandon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.LeaveBehind()
	j.waiting, j.inFlight = append(j.inFlight, j.waiting...), nil
}

// sweepOwn starts the deletion of journals that the newest landed one replaces, if no waiter needs the
// next write or if there are many. It runs concurrently with writes, so that waiters do not wait for
// deletions, unless too many journals accumulate. The next sweep removes leftovers of a failed
// deletion.
func (j *Journal) sweepOwn(ctx context.Context) {
	j.mu.Lock()
	n, from, waited := j.replacing(), j.numbers.Swept, len(j.waiting) > 0
	j.mu.Unlock()
	if n-from >= series.MaxReplaced {
		from = j.endDeletion()
	}
	if j.deleting != nil || n <= from || waited && n-from < series.MaxReplaced/2 {
		return
	}
	over, keys := make(chan int64, 1), j.unswept(n)
	j.deleting = over
	go func() {
		limited, cancel := context.WithTimeout(ctx, deleteTimeout)
		defer cancel()
		err := storage.DeleteJournal(limited, j.bucket, keys)
		if ctx.Err() != nil {
			over <- from // Close retries
			return
		}
		if err != nil {
			j.log.Warn("delete pending-work journal failed", "member", j.member, "n", n-1, "err", err)
		}
		over <- n
	}()
}

// endDeletion waits for a running deletion and returns the lowest number left.
func (j *Journal) endDeletion() int64 {
	if j.deleting != nil {
		j.deleted(<-j.deleting)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.numbers.Swept
}

// deleted records that no journal below n is left.
func (j *Journal) deleted(n int64) {
	j.deleting = nil
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.Swept = n
}

// removeStale deletes the stored keys that are older than the newest landed journal.
func (j *Journal) removeStale(ctx context.Context, keys []string) error {
	j.mu.Lock()
	old := j.numbers.Stale(keys, j.key)
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	return storage.DeleteJournal(ctx, j.bucket, old)
}

// unswept returns the keys below n that may be stored.
func (j *Journal) unswept(n int64) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.numbers.Replaced(n, j.key)
}

// key returns the key of a number. A node has one journal, in shard 0.
func (j *Journal) key(n int64) string { return storage.JournalKey(j.member, n) }

// Close removes the journal of a node without pending work. It is called after Run has returned. A
// node with pending work leaves its journal to the next sweep, without openings, because the node does
// not crash over them.
func (j *Journal) Close(ctx context.Context) {
	if j.mayLeave != nil {
		j.Release()
	}
	opening := func(e storage.JournalEntry) bool { return e.Opening }
	j.mu.Lock()
	j.leave(0)
	for _, e := range slices.DeleteFunc(slices.Clone(j.set), func(e storage.JournalEntry) bool { return !opening(e) }) {
		j.remove(j.entries[idOf(e)])
	}
	empty, n := len(j.entries) == 0, j.numbers.Newest
	j.mu.Unlock()
	if n < 0 {
		return
	}
	if !empty {
		if !slices.ContainsFunc(j.snapshot, opening) {
			return
		}
		last := j.compose()
		if err := j.store(ctx, last); err != nil {
			j.log.Warn("write pending-work journal failed", "member", j.member, "n", last.N, "err", err)
			return
		}
	}
	if err := storage.DeleteJournal(ctx, j.bucket, j.unswept(n+1)); err != nil {
		j.log.Warn("delete pending-work journal failed", "member", j.member, "n", n, "err", err)
	}
}
