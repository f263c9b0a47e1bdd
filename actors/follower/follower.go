package follower

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

const (
	// maxQueued bounds the batches that wait to be folded, or for the end of a load. Batches beyond it
	// are read from the bucket.
	maxQueued = 1024
	// maxQueuedBytes bounds the line bytes of those batches, decoded or not.
	maxQueuedBytes = 16 << 20
	// keptHashes is the number of batches behind the tip that a push is compared with.
	keptHashes = 256
)

// batch is a durable batch. Either its records are decoded or lines is not nil. bytes is the size of
// its record lines.
type batch struct {
	at      storage.Position
	prev    storage.Hash
	records []conversation.Record
	lines   []byte
	bytes   int
}

// follower is the view of one conversation. Two locks keep pushes from waiting for a fold: in guards
// the fields that a push uses and is held briefly, work guards the view. Lock order: work, in, Set.mu.
type follower struct {
	set     *Set
	key     conversation.Key
	address conversation.Address

	// Guarded by Set.mu.
	users     int
	lastUsed  time.Time
	idle      *list.Element // in Set.idle; nil while in use
	spare     *memory.Kept  // nil while in use
	held      int64         // bytes charged to Set.account
	transient bool          // over the memory bound: dropped after its last use
	reserved  int64         // part of held, reserved for a load
	growing   bool          // holds an element of Set.growth

	in     sync.Mutex
	tip    storage.Position // newest batch taken, folded or queued
	recent []storage.Hash   // hashes of the batches up to tip, newest last
	queue  []batch          // taken, not folded
	queued int              // bytes in queue
	// Invariant: stale is set while batches may be missing: from the start of a load that was
	// requested by more than a reader's head check until a load succeeds.
	stale      bool
	opened     bool // the durable head was reached since the last reset
	broken     bool // the view is not a prefix of the log: reset before use
	load       *flight
	asking     *inquiry
	offered    map[int64]batch // pushes received during the load
	kept       int             // bytes in offered
	overflow   bool            // pushes were dropped during the load
	reported   int64           // highest number reported during the load, -1 if none
	requested  bool            // another load was requested during the load
	emptyLoads int             // consecutive loads requested by a push that found nothing
	lost       error           // error of the last load; nil if it succeeded
	failed     error           // why the log is refused; nil if it is not
	failedAt   time.Time
	pages      map[span]*flight
	shelf      []span        // cached cold pages, oldest first
	shelved    int           // bytes of the cached pages
	more       chan struct{} // nil without waiters

	grown, hold int // bytes folded since the last load from a checkpoint, and their limit

	flights atomic.Int64 // flights and inquiries begun; orders them against reads

	work    sync.Mutex
	view    *view
	weighed int64 // bytes charged for the view

	resets *resets // created with pages

	making chan struct{} // holds an element while the event stream is projected; nil before the first
	walk   *walk         // of the last reader of old events; nil while in use
}

// flight is one bucket read that callers share. page and err are set before done is closed.
type flight struct {
	done chan struct{}
	n    int64 // number among the follower's flights and inquiries
	from int64 // last known batch when the flight began
	// whole is set if the log was read from its start.
	whole bool
	page  conversation.Page
	err   error
}

// wait returns the flight's error, or the context's error if the context ends first. After LoadTimeout
// the reader gets errStillRead and may retry; the flight continues.
func (f *follower) wait(ctx context.Context, l *flight) error {
	timeout := time.NewTimer(f.set.options.LoadTimeout)
	defer timeout.Stop()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return f.set.unavailable(errStillRead)
	}
}

func newFollower(s *Set, at conversation.Address) *follower {
	return &follower{
		set: s, key: at.Key(), address: at, stale: true,
		tip: storage.Start(), reported: -1,
		view: newView(s),
	}
}

func (f *follower) offer(b batch) {
	f.in.Lock()
	defer f.in.Unlock()
	switch {
	case f.stale && f.load != nil:
		f.keep(b)
	case f.stale:
		// The next read loads. Until then there are no waiters.
	case b.at.Seq <= f.tip.Seq && !f.forks(b):
	case f.fits(b) && f.room():
		f.take(b)
	case f.load != nil:
		f.keep(b)
	case f.forks(b):
		f.warnFork(b)
		f.broken = true
		f.repair()
	default:
		f.set.counts.gaps.Add(1)
		f.repair()
	}
}

// room reports whether one more batch may be queued; in is held.
func (f *follower) room() bool { return len(f.queue) < maxQueued && f.queued < maxQueuedBytes }

// keep stores a push until the load in flight ends; in is held. Two pushes that disagree are both
// dropped.
func (f *follower) keep(b batch) {
	other, ok := f.offered[b.at.Seq]
	if ok && other.at != b.at {
		delete(f.offered, b.at.Seq)
		f.overflow = true
		return
	}
	if len(f.offered) >= maxQueued || f.kept >= maxQueuedBytes {
		f.overflow = true
		return
	}
	if f.offered == nil {
		f.offered = map[int64]batch{}
	}
	f.offered[b.at.Seq] = b
	f.kept += b.bytes - other.bytes
}

// forks reports whether a different batch is known under the same number; in is held.
func (f *follower) forks(b batch) bool {
	i := int64(len(f.recent)) - 1 - (f.tip.Seq - b.at.Seq)
	return i >= 0 && i < int64(len(f.recent)) && f.recent[i] != b.at.Hash
}

func (f *follower) warnFork(b batch) {
	f.set.options.Logger.Warn("push contradicts known log",
		"conversation", string(f.key), "offset", b.at.Seq)
}

// fits reports whether b is the next batch; in is held.
func (f *follower) fits(b batch) bool { return b.at.Seq == f.tip.Seq+1 && b.prev == f.tip.Hash }

// take queues the next batch and wakes the waiters; in is held.
func (f *follower) take(b batch) {
	f.queue = append(f.queue, b)
	f.queued += b.bytes
	f.set.hold(f, int64(b.bytes))
	f.tip = b.at
	if len(f.recent) == 2*keptHashes {
		f.recent = f.recent[:copy(f.recent, f.recent[keptHashes:])]
	}
	f.recent = append(f.recent, b.at.Hash)
	f.broadcast()
}

// broadcast wakes all waiters; in is held.
func (f *follower) broadcast() {
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// past returns nil, nil when the head is past the offset, an error if the head is unknown, and
// otherwise a channel that is closed at the next change.
func (f *follower) past(after conversation.Offset) (<-chan struct{}, error) {
	f.in.Lock()
	defer f.in.Unlock()
	switch {
	case f.tip.Seq > int64(after):
		return nil, nil
	case f.load == nil && f.lost != nil:
		return nil, f.lost
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return f.more, nil
}

// lock folds the queue and returns the view with work held. On an error work is not held and ready
// must be called again. That includes a read of the log from its start, before it has reached the
// head.
func (f *follower) lock() (*view, error) {
	f.work.Lock()
	live, err := f.fold()
	if err == nil && !live {
		err = errBroken
	}
	if err != nil {
		f.unlock()
		return nil, err
	}
	return f.view, nil
}

// unlock charges the view's weight and releases work.
func (f *follower) unlock() {
	n := f.view.weight()
	f.set.hold(f, n-f.weighed)
	f.weighed = n
	f.work.Unlock()
}

// fold folds the queue and reports whether the follower is opened; work is held.
func (f *follower) fold() (live bool, err error) {
	f.in.Lock()
	queue, live, broken := f.queue, f.opened, f.broken
	f.set.hold(f, -int64(f.queued))
	f.queue, f.queued = nil, 0
	f.in.Unlock()
	if broken {
		return live, errBroken
	}
	for _, b := range queue {
		if err := f.apply(b, live); err != nil {
			f.in.Lock()
			f.broken, f.stale = true, true
			if f.load == nil { // Waiters do not start loads.
				f.repair()
			}
			f.in.Unlock()
			return live, err
		}
	}
	if live && f.shrink() {
		return live, errBroken
	}
	return live, nil
}

// shrink starts a reload if the view has grown beyond hold, and reports whether it did. A newer
// checkpoint has the messages that were closed since. work is held.
func (f *follower) shrink() bool {
	f.in.Lock()
	defer f.in.Unlock()
	f.grown += f.view.taken()
	if f.grown <= f.hold || f.load != nil {
		return false
	}
	f.broken = true
	f.repair()
	return true
}

// measure records the size of a freshly loaded view. The view may grow by the same size before it is
// reloaded, so that history without a checkpoint is not read over and over.
func (f *follower) measure() {
	f.work.Lock()
	defer f.work.Unlock()
	f.in.Lock()
	defer f.in.Unlock()
	f.grown = f.view.taken()
	f.hold = max(f.set.options.HoldBytes, 2*f.grown)
}

// apply decodes the lines of a batch if necessary and folds it; work is held.
func (f *follower) apply(b batch, live bool) (err error) {
	defer contain(&err)
	if b.lines != nil {
		records, err := conversation.DecodeRecords(b.lines)
		if err != nil {
			f.set.counts.undecoded.Add(1)
			f.set.options.Logger.Warn("decode push failed; reading log",
				"conversation", string(f.key), "offset", b.at.Seq, "err", err)
			return &logError{b.at.Seq, err}
		}
		b.records, b.lines = records, nil
	}
	return f.view.apply(b, live)
}

// open returns the view of an existing conversation through at least the offset need, with work held.
// A bucket read that began after the call decides absence and offsets beyond the head. It also
// confirms the head, unless the read is tailing or [Options.Tip] confirms it.
func (f *follower) open(ctx context.Context, need conversation.Offset) (*view, error) {
	began, tip, confirmed := f.flights.Load(), conversation.Start, !f.set.mustConfirm(ctx)
	fresh, err := f.ready(ctx, began)
	for err == nil {
		if !fresh && !confirmed {
			tip, confirmed, err = f.ask(ctx, began, need)
			if err == nil && !confirmed {
				fresh, err = true, f.refresh(ctx, began)
			}
			continue
		}
		v, broken := f.lock()
		switch {
		case broken != nil:
			fresh, err = f.ready(ctx, began)
			continue
		case v.exists() && v.head() >= need && (fresh || v.head() >= tip):
			return v, nil
		case fresh && !v.exists():
			err = notFound()
		case fresh:
			err = beyond(need, v.head())
		}
		f.unlock()
		if err == nil {
			fresh, err = true, f.refresh(ctx, began)
		}
	}
	return nil, err
}

// ready waits until all known durable batches are loaded. It reports whether a bucket read numbered
// after began has succeeded.
func (f *follower) ready(ctx context.Context, began int64) (fresh bool, err error) {
	f.in.Lock()
	for f.stale {
		if f.failed != nil && time.Since(f.failedAt) < f.set.options.IdleAfter {
			err := f.failed
			f.in.Unlock()
			return false, err
		}
		if f.load == nil && !f.start(ctx) {
			f.in.Unlock()
			return false, f.set.unavailable(errStopped)
		}
		l := f.load
		f.in.Unlock()
		if err := f.wait(ctx, l); err != nil {
			return false, err
		}
		fresh = fresh || l.n > began
		f.in.Lock()
		// Another load may already be running to close a gap that a push showed. Readers need not wait
		// for it: all batches that were durable when they arrived are loaded.
		if f.opened && !f.broken {
			break
		}
	}
	f.in.Unlock()
	return fresh, nil
}

// refresh waits for a bucket read numbered after began.
func (f *follower) refresh(ctx context.Context, began int64) error {
	for {
		f.in.Lock()
		if f.load == nil {
			// If other nodes push batches, tailing readers keep using the view during the head check,
			// even if the bucket does not answer.
			f.stale = f.stale || !f.set.remote() || f.tip.Seq < 0
			if !f.start(ctx) {
				f.in.Unlock()
				return f.set.unavailable(errStopped)
			}
		}
		l := f.load
		f.in.Unlock()
		err := f.wait(ctx, l)
		if l.n > began || ctx.Err() != nil || errors.Is(err, errStillRead) {
			return err
		}
	}
}
