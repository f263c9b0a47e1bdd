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
	// maxQueued bounds the pushed batches that a follower keeps until they are folded, or until a load
	// ends. It drops batches beyond it, and later reads them from the bucket.
	maxQueued = 1024
	// maxQueuedBytes bounds the record lines of those batches in bytes.
	maxQueuedBytes = 16 << 20
	// keptHashes is the number of batches up to the tip whose hashes are kept to detect a push of
	// another log.
	keptHashes = 256
)

// batch is a durable batch, decoded or not: either records or lines is set. bytes is the size of its
// record lines.
type batch struct {
	at      storage.Position
	prev    storage.Hash
	records []conversation.Record
	lines   []byte
	bytes   int
}

// follower is the view of one conversation. It has two locks, so that a push does not wait while
// batches are folded: in guards the fields that a push uses and is held briefly, work guards the view.
// Lock order: work, in, Set.mu.
type follower struct {
	set     *Set
	key     conversation.Key
	address conversation.Address

	// Guarded by Set.mu.
	users     int
	lastUsed  time.Time
	idle      *list.Element // in Set.idle; nil while in use
	spare     *memory.Kept  // entry in Set.shelf, by which memory pressure evicts the follower; nil while in use
	held      int64         // bytes charged to Set.account
	transient bool          // created over the memory bound: dropped after its last use
	reserved  int64         // bytes of held that are reserved for a load
	growing   bool          // may grow over the bound; holds one slot of Set.growth

	in     sync.Mutex
	tip    storage.Position // newest batch known, folded or queued
	recent []storage.Hash   // hashes of the batches up to tip, newest last
	queue  []batch          // pushed batches up to tip that are not folded yet
	queued int              // line bytes of queue
	// stale is set if batches may be missing; then reads wait for a load. Invariant: it is set from
	// the request of a load until a load succeeds. A load that only checks the head for a reader does
	// not set it.
	stale      bool
	opened     bool // a load has reached the head since the last reset
	broken     bool // the view is not a prefix of the log, so the next load resets it
	load       *flight
	asking     *inquiry
	offered    map[int64]batch // pushes received during the load, by number
	kept       int             // line bytes of offered
	overflow   bool            // pushes were dropped during the load
	reported   int64           // highest number of a batch reported during the load, -1 if none
	requested  bool            // another load was requested during the load
	emptyLoads int             // consecutive loads for a push that found no batch
	lost       error           // error of the last load, nil if it succeeded
	failed     error           // permanent error of the log, returned to readers until IdleAfter has passed; nil if there is none
	failedAt   time.Time
	pages      map[span]*flight
	shelf      []span        // cached pages of old batches, oldest first
	shelved    int           // bytes of those pages
	more       chan struct{} // closed at the next batch; nil without waiters

	grown, hold int // bytes folded into the view since its last reset, and the size at which it is reloaded

	flights atomic.Int64 // number of flights and inquiries begun; a read compares it to find those that began after it

	work    sync.Mutex
	view    *view
	weighed int64 // bytes of the view charged to Set.account

	resets *resets // created with the first page that needs it

	making chan struct{} // a lock with one slot, held while the event stream is projected; nil before the first use
	walk   *walk         // projection of old events that the last reader left; nil while in use
}

// flight is one bucket read whose result all callers share. page and err are set before done is
// closed.
type flight struct {
	done chan struct{}
	n    int64 // number among the follower's flights and inquiries
	from int64 // number of the last batch known when the flight began
	// whole is set if the log was read from its start.
	whole bool
	page  conversation.Page
	err   error
}

// wait waits until the flight ends and returns its error. It returns the context's error if ctx ends
// first, and errStillRead after LoadTimeout. The flight continues in both cases, and the caller may
// wait again.
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
		// Drop the batch: the next read loads it, and there are no waiters before that.
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

// keep stores a push until the current load ends; in is held. If it differs from a kept push of the
// same number, both are dropped.
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

// forks reports whether another batch of the same number is known; in is held.
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

// take queues the next batch and notifies the waiters; in is held.
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

// broadcast notifies all waiters; in is held.
func (f *follower) broadcast() {
	if f.more != nil {
		close(f.more)
		f.more = nil
	}
}

// past returns two nils if a batch after the offset is known, and an error if the last load failed.
// Otherwise it returns a channel that is closed at the next change.
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

// lock folds the queue and returns the view, with work held until the caller calls unlock. On an error
// work is not held, and the caller calls ready again. lock also fails while a read of the log from its
// start has not reached the head.
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

// unlock updates the bytes charged for the view and releases work.
func (f *follower) unlock() {
	n := f.view.weight()
	f.set.hold(f, n-f.weighed)
	f.weighed = n
	f.work.Unlock()
}

// fold folds the queued batches into the view. live reports whether a load has reached the head. work
// is held.
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
			if f.load == nil { // No waiter starts a load.
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

// shrink starts a reload if the view has grown beyond f.hold, and reports whether it did. It frees
// memory, because the newest checkpoint excludes messages that have been closed since. work is held.
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

// measure records the size of a freshly loaded view. The view is reloaded when it has doubled and
// exceeds HoldBytes. With a fixed limit, a long log without a checkpoint would be reloaded again and
// again.
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

// open returns the view of an existing conversation, at need or a later offset, with work held until
// unlock. "Not found", and an offset beyond the head, are decided only by a bucket read that began
// after the call. Unless the read is tailing, open also confirms the head, by [Options.Tip] or by such
// a bucket read.
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

// ready waits until all batches known to be durable are loaded. fresh reports whether a bucket read
// that began after the flight number began has succeeded.
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
		// Another load may already run for a gap that a push has revealed. Readers need not wait for
		// it: all batches that were durable at their start are loaded.
		if f.opened && !f.broken {
			break
		}
	}
	f.in.Unlock()
	return fresh, nil
}

// refresh waits for a bucket read that began after the flight number began, and starts one if
// necessary.
func (f *follower) refresh(ctx context.Context, began int64) error {
	for {
		f.in.Lock()
		if f.load == nil {
			// If other nodes push batches, tailing readers use the view during this check of the head,
			// even if the bucket does not answer. So stale is not set.
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
