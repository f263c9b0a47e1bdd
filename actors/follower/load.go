package follower

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

// readBatches is [Source.Batches] or [Source.Resume].
type readBatches func(context.Context, conversation.Key, storage.Position) iter.Seq2[storage.Batch, error]

// start begins a load unless the set is closed; in is held and no load runs.
func (f *follower) start(ctx context.Context) bool {
	l := &flight{done: make(chan struct{}), n: f.flights.Add(1), from: f.tip.Seq}
	ok := f.set.spawn(ctx, f, func(ctx context.Context) {
		f.finish(l, f.set.reading(ctx, f.key, func() error { return f.catchUp(ctx, l) }))
	})
	if ok {
		f.load = l
	}
	return ok
}

// repair begins a load because something may be missing; in is held and no load
// runs. Nobody is read to from the view until it is there.
func (f *follower) repair() {
	f.stale = true
	f.start(context.Background())
}

// catchUp reads the bucket after what is known. When that does not fit the log,
// everything is forgotten and read again, once.
func (f *follower) catchUp(ctx context.Context, l *flight) error {
	f.set.counts.loads.Add(1)
	defer f.set.loaded(f)
	if err := f.await(ctx, 0); err != nil {
		return err
	}
	f.in.Lock()
	at, broken := f.tip, f.broken
	f.in.Unlock()
	if broken {
		at = f.reset()
	}
	read, known := f.set.source.Batches, at.Seq >= 0
	if !known {
		var err error
		if at, err = f.restore(ctx); err != nil {
			return err
		}
		if at.Seq >= 0 {
			read = f.set.source.Resume
		}
	}
	l.whole = at.Seq < 0
	err := f.pull(ctx, read, at)
	if err == nil && !known {
		f.measure()
	}
	if err == nil || l.whole || !permanent(err) && !errors.Is(err, errBroken) {
		return err
	}
	f.set.options.Logger.Warn("log does not continue what is known here, reading it again",
		"conversation", string(f.key), "offset", at.Seq, "err", err)
	l.whole = true
	if err = f.pull(ctx, f.set.source.Batches, f.reset()); err == nil {
		f.measure()
	}
	return err
}

// restore begins with the newest checkpoint and its pages. It returns the position
// of the view, which is the start if there is no checkpoint that can be used.
func (f *follower) restore(ctx context.Context) (storage.Position, error) {
	source := &weighing{Source: f.set.source}
	r, _, err := Restore(ctx, source, f.key, f.set.options.Logger)
	if err != nil || r == nil {
		return storage.Start(), err
	}
	pages, refs, err := f.set.pages(ctx, source, f.key, r.Checkpoint.Pages)
	if r.Tail != nil {
		pages = append(pages, r.Tail)
	}
	if err == nil {
		err = r.State.Attach(pages)
	}
	switch {
	case away(err), ctx.Err() != nil:
		return storage.Start(), err
	case err != nil:
		f.set.options.Logger.Warn("checkpoint cannot be used, folding the log", "conversation", string(f.key), "err", err)
		return storage.Start(), nil
	}
	f.work.Lock()
	defer f.unlock()
	f.in.Lock()
	defer f.in.Unlock()
	size := source.bytes
	if refs != nil { // the pages were read, and are not held
		size = int64(r.Bytes)
		for _, p := range pages {
			size += int64(p.Bytes())
		}
	}
	f.view.restore(r.State, size, pages, refs)
	f.view.marks = f.marksOf(r.Checkpoint)
	f.tip = r.Checkpoint.At
	return f.tip, nil
}

// reset forgets everything.
func (f *follower) reset() storage.Position {
	f.work.Lock()
	defer f.unlock()
	f.in.Lock()
	defer f.in.Unlock()
	f.view = newView(f.set)
	f.tip, f.recent = storage.Start(), nil
	f.set.hold(f, -int64(f.queued))
	f.queue, f.queued = nil, 0
	f.opened, f.broken, f.stale = false, false, true
	f.dropWalk()
	f.set.hold(f, -int64(f.shelved))
	f.shelf, f.shelved = nil, 0
	clear(f.pages)
	return f.tip
}

// pull folds the batches that read finds after a position, up to the durable head.
func (f *follower) pull(ctx context.Context, read readBatches, after storage.Position) error {
	if err := f.foldQueue(); err != nil {
		return err
	}
	for b, err := range read(ctx, f.key, after) {
		if err != nil {
			return err
		}
		if err := f.await(ctx, len(b.Lines)); err != nil {
			return err
		}
		next, err := decoded(f.set.account, b)
		if err != nil {
			return err
		}
		f.in.Lock()
		fits := f.fits(next)
		if fits {
			f.take(next)
		} else { // unless it was pushed meanwhile
			fits = next.at.Seq <= f.tip.Seq && !f.forks(next)
		}
		f.in.Unlock()
		if !fits {
			return &storage.CorruptError{
				Conv: f.key, Key: storage.LogKey(f.key, b.Seq), Seq: b.Seq, Err: errors.New("batch does not continue the chain"),
			}
		}
		if err := f.foldQueue(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *follower) foldQueue() error {
	f.work.Lock()
	defer f.unlock()
	_, err := f.fold()
	return err
}

// await lets a load go on with n bytes. Where there is no room for them few loads do at a
// time, so that what they add is bounded, and the others wait, as long as for the bucket.
func (f *follower) await(ctx context.Context, n int) error {
	if f.set.reserve(f, int64(n)) || f.set.crowds(f, false) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.set.options.LoadTimeout)
	defer cancel()
	select {
	case f.set.crowded <- struct{}{}:
		f.set.crowds(f, true)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for memory: %w", ctx.Err())
	}
}

// weighing is a source that counts the bytes of what it gives of checkpoints.
type weighing struct {
	Source
	bytes int64
}

// Checkpoint implements [Source].
func (w *weighing) Checkpoint(ctx context.Context, conv conversation.Key) (*storage.Checkpoint, error) {
	c, err := w.Source.Checkpoint(ctx, conv)
	if c != nil {
		w.bytes += int64(len(c.State) + len(c.Tail))
	}
	return c, err
}

// Page implements [Source].
func (w *weighing) Page(ctx context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error) {
	data, err := w.Source.Page(ctx, conv, ref)
	w.bytes += int64(len(data))
	return data, err
}

// decoded decodes a stored batch, at its turn if that is long.
func decoded(turns *memory.Account, b storage.Batch) (batch, error) {
	defer turns.Turn(len(b.Lines))()
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		return batch{}, &logError{b.Seq, err}
	}
	at := storage.Position{Seq: b.Seq, Hash: b.Hash}
	return batch{at: at, prev: b.Prev, records: records, bytes: len(b.Lines)}, nil
}

// finish ends a load: pushes that came meanwhile are taken, and if they show
// that more is stored, the next load begins at once.
func (f *follower) finish(l *flight, err error) {
	f.in.Lock()
	f.load = nil
	again := false
	switch {
	case err == nil:
		f.opened, f.stale = true, false
		f.failed = nil
		again = f.settle(l)
	case permanent(err):
		l.err = f.set.explain(f.key, err)
		f.logFailure(err)
		f.failed, f.failedAt = l.err, time.Now()
		f.broken = true
		if damaged(err) {
			f.set.options.Corrupt(f.key)
		}
	default:
		l.err = f.set.explain(f.key, err)
		f.emptyLoads = 0
		again = !f.stale && f.settle(l) // if not stale, all that is known to be durable is at hand
	}
	f.lost = nil
	if f.stale {
		f.lost = l.err
	}
	f.offered, f.kept, f.overflow, f.heard, f.again = nil, 0, false, -1, false
	if again {
		f.repair()
	}
	f.broadcast()
	f.in.Unlock()
	close(l.done)
}

// logFailure reports a damaged log, but not the same damage again; in is held.
func (f *follower) logFailure(err error) {
	known := errors.Unwrap(f.failed)
	if known != nil && known.Error() == err.Error() {
		return
	}
	f.set.options.Logger.Error("conversation cannot be read", "conversation", string(f.key), "err", err)
}

// settle takes the pushes that came during a load and reports whether the bucket
// has to be read once more; in is held.
func (f *follower) settle(l *flight) bool {
	missing := f.overflow
	for _, seq := range slices.Sorted(maps.Keys(f.offered)) {
		b := f.offered[seq]
		switch {
		case f.forks(b):
			f.warnFork(b)
			// A log that was just read as a whole is right, and the push is not.
			f.broken = f.broken || !l.whole
		case seq <= f.tip.Seq:
		case f.fits(b) && f.room():
			f.take(b)
		default:
			missing = true
		}
	}
	if f.broken {
		f.stale = true
		return true
	}
	if missing = missing || f.heard > f.tip.Seq; missing {
		f.set.counts.gaps.Add(1)
	}
	if !missing || f.again || f.tip.Seq > l.from {
		f.emptyLoads = 0
		return missing || f.again
	}
	// The push may have come after this load listed the log, but a load that began
	// after the push finds it.
	f.emptyLoads++
	if f.emptyLoads > 1 {
		f.emptyLoads = 0
		f.set.options.Logger.Warn("push is not in the log", "conversation", string(f.key), "offset", f.tip.Seq)
		return false
	}
	return true
}
