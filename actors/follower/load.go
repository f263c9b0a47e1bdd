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

// repair begins a load because batches may be missing; in is held and no load runs. Reads of the view
// wait until it ends.
func (f *follower) repair() {
	f.stale = true
	f.start(context.Background())
}

// catchUp reads the bucket after the tip. If the result does not continue the view, catchUp resets the
// follower and reads the log once more.
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
	f.set.options.Logger.Warn("log does not continue view; reloading",
		"conversation", string(f.key), "offset", at.Seq, "err", err)
	l.whole = true
	if err = f.pull(ctx, f.set.source.Batches, f.reset()); err == nil {
		f.measure()
	}
	return err
}

// restore loads the newest checkpoint and its pages. It returns the position of the view, which is the
// start if no checkpoint is usable.
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
		f.set.options.Logger.Warn("checkpoint unusable; folding log", "conversation", string(f.key), "err", err)
		return storage.Start(), nil
	}
	f.work.Lock()
	defer f.unlock()
	f.in.Lock()
	defer f.in.Unlock()
	size := source.bytes
	if refs != nil { // the pages were read but are not held
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

// reset drops the view, the queue and the cached pages.
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

// pull folds the batches that read returns after a position, up to the durable head.
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
		} else { // unless a push added it during the read
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

// await reserves n bytes for a load. Over the memory bound only maxGrowing loads proceed at a time, so
// that their growth is bounded. The others wait for at most LoadTimeout.
func (f *follower) await(ctx context.Context, n int) error {
	if f.set.reserve(f, int64(n)) || f.set.mayGrow(f, false) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.set.options.LoadTimeout)
	defer cancel()
	select {
	case f.set.growth <- struct{}{}:
		f.set.mayGrow(f, true)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for memory: %w", ctx.Err())
	}
}

// weighing is a source that counts the bytes of the checkpoints and pages it returns.
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

// decoded decodes a stored batch. A long batch waits for its turn.
func decoded(turns *memory.Account, b storage.Batch) (batch, error) {
	defer turns.Turn(len(b.Lines))()
	records, err := conversation.DecodeRecords(b.Lines)
	if err != nil {
		return batch{}, &logError{b.Seq, err}
	}
	at := storage.Position{Seq: b.Seq, Hash: b.Hash}
	return batch{at: at, prev: b.Prev, records: records, bytes: len(b.Lines)}, nil
}

// finish ends a load and applies the pushes received during it. If they show that more is stored, the
// next load begins immediately.
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
		if corrupt(err) {
			f.set.options.Corrupt(f.key)
		}
	default:
		l.err = f.set.explain(f.key, err)
		f.emptyLoads = 0
		again = !f.stale && f.settle(l) // if not stale, all known batches are loaded
	}
	f.lost = nil
	if f.stale {
		f.lost = l.err
	}
	f.offered, f.kept, f.overflow, f.reported, f.requested = nil, 0, false, -1, false
	if again {
		f.repair()
	}
	f.broadcast()
	f.in.Unlock()
	close(l.done)
}

// logFailure logs a corrupt log, once per error text; in is held.
func (f *follower) logFailure(err error) {
	known := errors.Unwrap(f.failed)
	if known != nil && known.Error() == err.Error() {
		return
	}
	f.set.options.Logger.Error("conversation cannot be read", "conversation", string(f.key), "err", err)
}

// settle applies the pushes received during a load and reports whether the bucket must be read once
// more; in is held.
func (f *follower) settle(l *flight) bool {
	missing := f.overflow
	for _, seq := range slices.Sorted(maps.Keys(f.offered)) {
		b := f.offered[seq]
		switch {
		case f.forks(b):
			f.warnFork(b)
			// If the whole log was just read, the push is wrong.
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
	if missing = missing || f.reported > f.tip.Seq; missing {
		f.set.counts.gaps.Add(1)
	}
	if !missing || f.requested || f.tip.Seq > l.from {
		f.emptyLoads = 0
		return missing || f.requested
	}
	// The push may have arrived after this load listed the log. A load that began after the push finds
	// it.
	f.emptyLoads++
	if f.emptyLoads > 1 {
		f.emptyLoads = 0
		f.set.options.Logger.Warn("push is not in the log", "conversation", string(f.key), "offset", f.tip.Seq)
		return false
	}
	return true
}
