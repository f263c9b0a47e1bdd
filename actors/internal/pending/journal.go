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
	// Linger is the time for which an idle conversation stays listed. A conversation that is used
	// again within it needs no journal write.
	Linger = time.Second
	// journalRetry is the pause after a failed journal write.
	journalRetry = time.Second
	// gatherOpenings delays the journal write for an opening that begins or ends, because a sweep
	// opens many conversations at once.
	gatherOpenings = time.Millisecond
	// deleteTimeout bounds the deletion of replaced journals, so that a request that hangs delays
	// neither the next write nor the next sweep.
	deleteTimeout = 5 * time.Second
)

// ID identifies an entry by its conversation and the nonce of a writer of that conversation.
type ID struct {
	Conv  conversation.Key
	Nonce storage.Nonce
}

func idOf(e storage.JournalEntry) ID { return ID{e.Conv, e.Nonce} }

// unlisted is the value of entry.first before a journal lists the entry.
const unlisted = math.MaxInt64

// compare orders entries, so that equal sets encode to equal bytes and waiters are called in a fixed
// order.
func (id ID) compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Conv, other.Conv), cmp.Compare(id.Nonce, other.Nonce))
}

// entry is an element of Journal.set. Invariant: while it is in the set, every journal from number
// first to the newest lists it.
type entry struct {
	id           ID
	first        int64         // number of the first journal that lists it, or unlisted
	leaving      *list.Element // element of Journal.leaving while its removal is due, else nil
	leavingSince time.Time
	withheld     int64 // value of withheldN when it was withheld, 0 if it is not
	gone         bool  // no longer in the set
}

// withheldEntry identifies one withholding of an entry, so that a result of mayLeave is not applied to
// a later one.
type withheldEntry struct {
	*entry
	n int64 // entry.withheld when mayLeave was called
}

// waiter waits until its entry is listed; then done is called. If the entry is removed before that, a
// writer is not called. An opening is listed again, while still returns true. It needs that because an
// idle writer has one id for all activations, so the end of one may remove the entry of the next.
type waiter struct {
	e     *entry
	done  func()
	still func() bool // whether the opening still waits; nil for a writer
}

// Journal is the pending-work journal of this node: the set of its conversations with unsettled work.
// It is kept in the bucket as numbered objects, so that other nodes find it after a crash. A journal
// lands when the bucket acknowledges it; see package series.
//
// Guarantees:
//
//  1. List calls back once the newest landed journal lists the writer, and so does the journal in
//     flight, if any.
//  2. Numbers only grow, and the bytes under a number never change. One write is in flight. It is
//     repeated with the same bytes until it lands. If the bucket refuses it, the next number
//     replaces it.
//  3. Number n-1 is deleted only after n has landed.
//  4. An entry is removed in two cases. Its own writer reports a durable idle state, and mayLeave
//     reports that the events are stored or will be found. Or the owner of its conversation has
//     answered a probe. A writer that is fenced or steps down does not remove it.
//
// A Journal is safe for concurrent use. Run writes journals in its own goroutine, and starts one that
// deletes replaced journals. It waits for that one before it returns.
type Journal struct {
	bucket storage.Bucket
	member string
	log    *slog.Logger

	mu      sync.Mutex
	entries map[ID]*entry
	set     []storage.JournalEntry // the entries as they are encoded, sorted
	fresh   []*entry               // entries that no journal lists yet
	leaving list.List              // elements are *entry: idle, removed after Linger; newest last
	// withheld entries are idle, but stay listed until mayLeave permits their removal.
	withheld  map[*entry]bool
	withheldN int64 // last value of entry.withheld
	// mayLeave reports whether an idle conversation may be removed; nil permits all. See HoldUntil.
	mayLeave func(conversation.Key) bool
	waiting  []waiter // waiters for the next write
	inFlight []waiter // waiters for the write in flight
	numbers  series.Series
	flushNow bool      // the next write does not wait for Linger
	gathered time.Time // no write begins before this time
	dirty    bool      // the set differs from the last write; leaving entries do not count
	kick     chan struct{}

	// The fields below belong to Run.
	writer   *storage.JournalWriter
	snapshot []storage.JournalEntry // the set of the write in flight
	deleting chan int64             // receives the lowest number left after a deletion; nil if none runs
}

// NewJournal returns the empty journal of a member, which is one incarnation of a node.
func NewJournal(b storage.Bucket, member string, log *slog.Logger) *Journal {
	return &Journal{
		bucket: b, member: member, log: log, entries: map[ID]*entry{}, withheld: map[*entry]bool{}, numbers: series.Begin(),
		kick: make(chan struct{}, 1), writer: storage.NewJournalWriter(b),
	}
}

// HoldUntil keeps idle entries listed until may returns true for their conversation. may must not
// block. Call HoldUntil before the first List.
func (j *Journal) HoldUntil(may func(conversation.Key) bool) { j.mayLeave = may }

// Member returns the member (the incarnation of the node) that owns the journal.
func (j *Journal) Member() string { return j.member }

// List lists the writer id, which continues the log at batch seq. It calls done once the writer is
// listed, before it returns or later from the goroutine of Run.
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
	if j.opens(id.Conv) { // The opening ends soon, so both changes share one write.
		j.gather()
	}
	j.await(waiter{e: e, done: done})
}

// opens reports whether the set contains an opening of a conversation. The caller holds mu.
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

// Opening lists a conversation that is about to be opened, and calls done like [Journal.List]. Such an
// entry is not pending work: after a crash it identifies the conversations that may have caused it.
func (j *Journal) Opening(id ID, done func()) {
	j.mu.Lock()
	j.await(waiter{e: j.opening(id), done: done})
}

// opening returns the entry for an opening and adds it if necessary. The caller holds mu.
func (j *Journal) opening(id ID) *entry {
	e := j.entries[id]
	if e == nil {
		e = j.add(storage.JournalEntry{Conv: id.Conv, Nonce: id.Nonce, Seq: -1, Opening: true})
		j.gather()
	}
	return e
}

// OpeningListed lists an opening like [Journal.Opening] and waits until it is listed or ctx ends.
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

// Opened removes the entry of an opening and reports whether there was one. The caller then calls
// Signal soon: while the entry is listed, any crash of the node makes the conversation a suspect.
func (j *Journal) Opened(id ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	if e == nil {
		return false
	}
	j.remove(e)
	j.dirty, j.flushNow = true, j.flushNow || e.first <= j.numbers.Newest // flushNow only if a journal lists it
	j.gather()
	return true
}

// gather delays the next write, so that more changes share it. The caller holds mu.
func (j *Journal) gather() {
	if now := time.Now(); !now.Before(j.gathered) {
		j.gathered = now.Add(gatherOpenings)
	}
}

// await calls w.done once its entry is listed: at once if it is, otherwise after a write. The caller
// holds mu; await releases it.
func (j *Journal) await(w waiter) {
	j.stay(w.e)
	switch {
	case j.numbers.Behind || w.e.first > j.numbers.Newest: // not listed, or only in a write that was abandoned
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

// Unlist removes a writer whose idle state is durable. It keeps the entry until mayLeave permits the
// removal.
func (j *Journal) Unlist(id ID) {
	j.mu.Lock()
	e := j.entry(id)
	first := false
	var held withheldEntry
	switch {
	case e == nil || e.leaving != nil:
	case j.mayLeave == nil:
		first = j.depart(e)
	default: // Withhold it before calling mayLeave: Release then finds it if the result changes.
		j.stay(e)
		j.withheldN++
		e.withheld, j.withheld[e] = j.withheldN, true
		held = withheldEntry{e, e.withheld}
	}
	j.mu.Unlock()
	if held.entry != nil && j.mayLeave(id.Conv) {
		j.free(held)
	}
	// If other entries are leaving, the timer of Run is set already.
	if first {
		j.Signal()
	}
}

// depart schedules the removal of an entry and reports whether it is the only one scheduled. The
// caller holds mu.
func (j *Journal) depart(e *entry) bool {
	j.stay(e)
	e.leaving, e.leavingSince = j.leaving.PushBack(e), time.Now()
	return j.leaving.Len() == 1
}

// Release schedules the removal of the withheld entries that mayLeave permits now.
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

// free schedules the removal of entries, except those that were listed again after mayLeave was called
// for them.
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

// Answered removes an entry of another node because the owner of its conversation has answered a
// probe.
func (j *Journal) Answered(id ID) {
	j.mu.Lock()
	if e := j.entries[id]; e != nil {
		j.remove(e)
		j.dirty = true
	}
	j.mu.Unlock()
	j.Signal()
}

// Held returns a copy of the entries, in the order of compare.
func (j *Journal) Held() []storage.JournalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.set)
}

// listsOnly reports whether all entries are of one conversation.
func (j *Journal) listsOnly(key conversation.Key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !slices.ContainsFunc(j.set, func(e storage.JournalEntry) bool { return e.Conv != key })
}

// Size returns the number of entries, and the number of those with pending work: neither leaving nor
// withheld.
func (j *Journal) Size() (all, pending int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.set), len(j.set) - j.leaving.Len() - len(j.withheld)
}

// add adds an entry to the set. The caller of add, remove, find, stay and leave holds mu.
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

// stay cancels the scheduled or withheld removal of an entry.
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

// leave removes the entries whose removal was scheduled at least linger ago.
func (j *Journal) leave(linger time.Duration) {
	for el := j.leaving.Front(); el != nil; el = j.leaving.Front() {
		e := el.Value.(*entry)
		if linger > 0 && time.Since(e.leavingSince) < linger {
			return
		}
		j.remove(e)
	}
}

// Signal makes Run check whether a write is due. It does not block.
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

// due reports whether a write is due now. If not, wait is the time until one may be, 0 if none is
// scheduled.
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

// write stores the set under the next number and calls the waiters. After an error it pauses, and Run
// repeats it with another number. It returns false if Run has to end.
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

// compose allocates the next number and returns the journal to store under it.
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

// land records that journal n has landed and returns the waiters to call.
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

// abandon drops the number in flight, because its outcome is unknown. Its waiters wait for the next
// number.
func (j *Journal) abandon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.Abandon()
	j.waiting, j.inFlight = append(j.inFlight, j.waiting...), nil
}

// sweepOwn starts a goroutine that deletes the journals that the newest landed one replaces. It waits
// with that while a waiter needs the next write, unless many have accumulated. A waiter does not wait
// for a deletion, except when series.MaxReplaced journals are left. The next sweep deletes leftovers
// of a failed deletion.
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
			over <- from // Close retries.
			return
		}
		if err != nil {
			j.log.Warn("delete pending-work journal failed", "member", j.member, "n", n-1, "err", err)
		}
		over <- n
	}()
}

// endDeletion waits for a running deletion. It returns the lowest number that may be stored.
func (j *Journal) endDeletion() int64 {
	if j.deleting != nil {
		j.deleted(<-j.deleting)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.numbers.Swept
}

// deleted records the end of a deletion: no journal below n is left.
func (j *Journal) deleted(n int64) {
	j.deleting = nil
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.Swept = n
}

// removeStale deletes those of the listed keys that are older than the newest landed journal.
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

// key returns the object key of a number.
func (j *Journal) key(n int64) string { return storage.JournalKey(j.member, n) }

// Close deletes the journal if the node has no pending work. Call it after Run has returned. If there
// is pending work, the journal stays for the sweep of another node or of the next start. Close
// rewrites it without openings, because the node has not crashed over them.
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
