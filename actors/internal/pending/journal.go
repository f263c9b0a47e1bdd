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
	// Linger keeps a conversation that became idle listed for a while, so
	// that one which is used again at once costs no journal write.
	Linger = time.Second
	// journalRetry is the pause after a journal write that the bucket refused.
	journalRetry = time.Second
	// gatherOpenings is how long a journal waits when it is to tell of a conversation that is
	// about to be opened, or was: a sweep asks for many at once.
	gatherOpenings = time.Millisecond
	// deleteTimeout bounds the deletion of journals that nobody needs any more: a
	// request that is never answered must hold up neither the next write nor the
	// next sweep.
	deleteTimeout = 5 * time.Second
)

// ID names an entry: a conversation under one writer incarnation.
type ID struct {
	Conv  conversation.Key
	Nonce storage.Nonce
}

func idOf(e storage.JournalEntry) ID { return ID{e.Conv, e.Nonce} }

// unlisted is the number of the first journal of an entry that no journal lists.
const unlisted = math.MaxInt64

// compare orders entries, so that the same set is written as the same bytes and who
// waits for it is told in the same order.
func (id ID) compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Conv, other.Conv), cmp.Compare(id.Nonce, other.Nonce))
}

// entry is a conversation of the set. Invariant: as long as it is in the set, all
// journals from the first that lists it to the newest list it.
type entry struct {
	id           ID
	first        int64         // the first journal that lists it, or unlisted
	leaving      *list.Element // in journal.leaving; nil unless it is about to leave
	leavingSince time.Time
	withheld     int64 // which time it is in journal.withheld, 0 if it is not
	gone         bool  // no longer in the set
}

// asked is an entry that was withheld when it was asked whether it may leave.
type asked struct {
	*entry
	n int64 // which time that was
}

// waiter is called once its entry is listed. For who is about to open a conversation, as still says,
// it is listed anew when somebody else of the same id takes the entry back meanwhile: the writer at
// rest has one id for every activation, and the end of one may meet the beginning of the next.
type waiter struct {
	e     *entry
	done  func()
	still func() bool // nil for a writer, whose entry goes with its work
}

// Journal is the pending-work journal of this node: the set of conversations here that
// have unsettled work, kept in the bucket as numbered objects so that whoever
// survives this node finds them.
//
// Guarantees:
//
//  1. List calls back once the writer stands in the newest landed journal and in
//     the one in flight, if any.
//  2. Numbers only grow and a number never gets other bytes: one write is in
//     flight, repeated with the same bytes until it lands, or left behind for the
//     next number when the bucket refuses it.
//  3. Number n-1 is deleted only after n has landed.
//  4. An entry leaves only when its own writer says that idle is durable, and
//     mayLeave that its events are stored or will be found; or when
//     its conversation's owner has answered a poke for it. Being fenced or
//     stepping down is no reason.
//
// Safe for concurrent use. Run is the only goroutine that writes; it waits for the
// one that deletes.
type Journal struct {
	bucket storage.Bucket
	member string
	log    *slog.Logger

	mu      sync.Mutex
	entries map[ID]*entry
	set     []storage.JournalEntry // what the entries stand for, in their order
	fresh   []*entry               // that no journal lists yet
	leaving list.List              // of *entry: about to leave, who said so last at the back
	// withheld would leave, but their events are found by nothing else yet.
	withheld  map[*entry]bool
	withheldN int64 // counts how often anybody was
	// mayLeave is nil if everybody may go.
	mayLeave func(conversation.Key) bool
	waiting  []waiter // for the next write
	flying   []waiter // for the write in flight
	numbers  series.Series
	flushNow bool      // the next write does not wait for who leaves
	gathered time.Time // no journal is written before
	dirty    bool      // the set differs from what was written last, apart from who leaves
	kick     chan struct{}

	// The fields below belong to run.
	writer   *storage.JournalWriter
	snapshot []storage.JournalEntry // the set as the write in flight has it
	deleting chan int64             // gives below which nothing is left when a deletion is over; nil if none runs
}

// NewJournal returns the journal of an incarnation, which lists nothing yet.
func NewJournal(b storage.Bucket, member string, log *slog.Logger) *Journal {
	return &Journal{
		bucket: b, member: member, log: log, entries: map[ID]*entry{}, withheld: map[*entry]bool{}, numbers: series.Begin(),
		kick: make(chan struct{}, 1), writer: storage.NewJournalWriter(b),
	}
}

// HoldUntil has those stay that would leave until may says that they may, which is asked
// about each and must not block. It is called before anything is listed.
func (j *Journal) HoldUntil(may func(conversation.Key) bool) { j.mayLeave = may }

// Member is the incarnation whose journal it is.
func (j *Journal) Member() string { return j.member }

// List makes the journal list a writer at a position and calls done once it does,
// from a goroutine of the journal or before it returns.
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
	if j.opens(id.Conv) { // The end of that opening, which comes at the same time, joins the journal.
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

// Opening makes the journal say that a conversation is about to be opened and calls done
// as list does. Nothing is owed for it: it is there so that whoever finds the journal of a
// node that died knows over what.
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

// OpeningListed is opening, and waits until the journal says so.
func (j *Journal) OpeningListed(ctx context.Context, id ID) error {
	listed := make(chan struct{})
	j.mu.Lock()
	j.await(waiter{j.opening(id), func() { close(listed) }, func() bool { return ctx.Err() == nil }})
	select {
	case <-listed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("list it first: %w", ctx.Err())
	}
}

// Opened takes back what opening has said, and reports whether it had. The caller nudges the
// journal soon: one that goes on to say it makes a suspect of the conversation when the node
// dies of something else.
func (j *Journal) Opened(id ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.entries[id]
	if e == nil {
		return false
	}
	j.remove(e)
	j.dirty, j.flushNow = true, j.flushNow || e.first <= j.numbers.Newest // else no journal has it
	j.gather()
	return true
}

// gather lets others join the next journal. The caller holds mu.
func (j *Journal) gather() {
	if now := time.Now(); !now.Before(j.gathered) {
		j.gathered = now.Add(gatherOpenings)
	}
}

// await calls who waits once their entry is listed. The caller holds mu, which is released.
func (j *Journal) await(w waiter) {
	j.stay(w.e)
	switch {
	case j.numbers.Behind || w.e.first > j.numbers.Newest: // Nothing that may count lists it.
		j.waiting = append(j.waiting, w)
	case w.e.first > j.numbers.Landed:
		j.flying = append(j.flying, w)
		j.mu.Unlock()
		return
	default:
		j.mu.Unlock()
		w.done()
		return
	}
	j.mu.Unlock()
	j.Nudge()
}

// Unlist lets a writer go whose idle state is durable, as soon as its events, too, are
// stored or will be found.
func (j *Journal) Unlist(id ID) {
	j.mu.Lock()
	e := j.entry(id)
	first := false
	var held asked
	switch {
	case e == nil || e.leaving != nil:
	case j.mayLeave == nil:
		first = j.depart(e)
	default: // Before it is asked about, so that release finds it once the answer is another.
		j.stay(e)
		j.withheldN++
		e.withheld, j.withheld[e] = j.withheldN, true
		held = asked{e, e.withheld}
	}
	j.mu.Unlock()
	if held.entry != nil && j.mayLeave(id.Conv) {
		j.free(held)
	}
	// While somebody leaves, run looks again by itself.
	if first {
		j.Nudge()
	}
}

// depart puts an entry among those about to leave and reports whether it is the only
// one. The caller holds mu.
func (j *Journal) depart(e *entry) bool {
	j.stay(e)
	e.leaving, e.leavingSince = j.leaving.PushBack(e), time.Now()
	return j.leaving.Len() == 1
}

// Release lets those go that were withheld and may leave by now.
func (j *Journal) Release() {
	var held []asked
	j.mu.Lock()
	for e := range j.withheld {
		held = append(held, asked{e, e.withheld})
	}
	j.mu.Unlock()
	held = slices.DeleteFunc(held, func(a asked) bool { return !j.mayLeave(a.id.Conv) })
	slices.SortFunc(held, func(a, b asked) int { return a.id.compare(b.id) })
	j.free(held...)
}

// free lets those go that may leave, unless they were listed anew since they were asked about.
func (j *Journal) free(held ...asked) {
	first := false
	j.mu.Lock()
	for _, a := range held {
		if a.withheld == a.n {
			first = j.depart(a.entry) || first
		}
	}
	j.mu.Unlock()
	if first {
		j.Nudge()
	}
}

// Answered removes an entry whose conversation's owner has answered a poke.
func (j *Journal) Answered(id ID) {
	j.mu.Lock()
	if e := j.entries[id]; e != nil {
		j.remove(e)
		j.dirty = true
	}
	j.mu.Unlock()
	j.Nudge()
}

// Held returns the entries of the set.
func (j *Journal) Held() []storage.JournalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.set)
}

// listsOnly reports whether the set has entries of one conversation at most.
func (j *Journal) listsOnly(key conversation.Key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !slices.ContainsFunc(j.set, func(e storage.JournalEntry) bool { return e.Conv != key })
}

// Size counts the entries of the set, and those of them that are not about to leave it.
func (j *Journal) Size() (all, owed int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.set), len(j.set) - j.leaving.Len() - len(j.withheld)
}

// add puts a writer into the set. The caller holds mu, as for the next four.
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

// remove takes an entry out of the set.
func (j *Journal) remove(e *entry) {
	j.stay(e)
	at, _ := j.find(e.id)
	j.set = slices.Delete(j.set, at, at+1)
	delete(j.entries, e.id)
	e.gone = true
}

// find returns where an entry is in the set, or belongs.
func (j *Journal) find(id ID) (int, bool) {
	return slices.BinarySearchFunc(j.set, id, func(e storage.JournalEntry, id ID) int {
		return idOf(e).compare(id)
	})
}

// stay makes sure that an entry is not about to leave.
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

// leave removes the entries that are about to leave for at least linger.
func (j *Journal) leave(linger time.Duration) {
	for el := j.leaving.Front(); el != nil; el = j.leaving.Front() {
		e := el.Value.(*entry)
		if linger > 0 && time.Since(e.leavingSince) < linger {
			return
		}
		j.remove(e)
	}
}

// Nudge has the journal look at once what is to be written. It does not block.
func (j *Journal) Nudge() { nudge(j.kick) }

// nudge wakes who receives from ch, whose capacity is 1, unless a wake-up waits there
// already. It does not block.
func nudge(ch chan<- struct{}) {
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

// due reports whether a journal is to be written now, or after how long for the
// sake of entries that leave; 0 is never.
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

// write stores the set under the next number and reports whether to go on.
func (j *Journal) write(ctx context.Context) bool {
	next := j.compose()
	err := j.store(ctx, next)
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		j.log.Error("write pending-work journal", "member", j.member, "n", next.N, "err", err)
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

// compose takes the snapshot that the next number gets.
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
	j.flying, j.waiting = append(j.flying, j.waiting...), nil
	j.dirty, j.flushNow = false, false
	j.snapshot = append(j.snapshot[:0], j.set...)
	return storage.Journal{Member: j.member, N: n, Entries: j.snapshot}
}

// land records that the journal n landed and returns who waited for it.
func (j *Journal) land(n int64) []waiter {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.Land(n)
	listed := slices.DeleteFunc(j.flying, func(w waiter) bool {
		if w.e.gone && w.still != nil && w.still() {
			w.e = j.opening(w.e.id)
			j.waiting = append(j.waiting, w)
			return true
		}
		return w.e.gone
	})
	j.flying = nil
	slices.SortStableFunc(listed, func(a, b waiter) int { return a.e.id.compare(b.e.id) })
	return listed
}

// abandon leaves the number in flight behind: its outcome is unknown, so nothing
// rests on it.
func (j *Journal) abandon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.LeaveBehind()
	j.waiting, j.flying = append(j.flying, j.waiting...), nil
}

// sweepOwn starts to delete the journals that the newest landed one replaces, when
// nobody waits for the next write or there are many. It runs beside the writes: who
// waits for one must not wait for deletions, unless these are so slow that too many
// journals wait for them. What a failure leaves behind is junk that the next sweep
// removes.
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
			over <- from // close tries again
			return
		}
		if err != nil {
			j.log.Warn("delete pending-work journal", "member", j.member, "n", n-1, "err", err)
		}
		over <- n
	}()
}

// endDeletion waits for the deletion that runs, if there is one, and returns below which
// number nothing is left.
func (j *Journal) endDeletion() int64 {
	if j.deleting != nil {
		j.deleted(<-j.deleting)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.numbers.Swept
}

// deleted notes that nothing is left below a number.
func (j *Journal) deleted(n int64) {
	j.deleting = nil
	j.mu.Lock()
	defer j.mu.Unlock()
	j.numbers.Swept = n
}

// removeStale deletes those of the stored keys that are older than the newest landed
// journal.
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

// key is that of a number. A node has one journal, in shard 0.
func (j *Journal) key(n int64) string { return storage.JournalKey(j.member, n) }

// Close removes the journal of a node that owes nothing any more. It is called
// after run has returned; a node that still owes something leaves its journal to
// the next sweep. That one says of no conversation that it is about to be opened: the node
// does not die of any.
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
			j.log.Warn("write pending-work journal", "member", j.member, "n", last.N, "err", err)
			return
		}
	}
	if err := storage.DeleteJournal(ctx, j.bucket, j.unswept(n+1)); err != nil {
		j.log.Warn("delete pending-work journal", "member", j.member, "n", n, "err", err)
	}
}
