package history

import (
	"context"
	"slices"

	"github.com/parleyrun/parley/storage"
)

// maxRecentBytes bounds the lines of batches kept for the next compaction, which reads the others.
const maxRecentBytes = 512 << 10

// Wrote adds a batch for the next compaction.
func (a *Archive) Wrote(b storage.Batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent = append(a.recent, b)
	a.bytes += len(b.Lines)
	for a.bytes > maxRecentBytes {
		a.drop(1)
	}
}

// Weight returns the approximate memory of the archive, in bytes.
func (a *Archive) Weight() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held.Load() + int64(a.bytes)
}

// drop evicts the oldest of the recent batches. The caller holds mu.
func (a *Archive) drop(n int) {
	for i := range a.recent[:n] {
		a.bytes -= len(a.recent[i].Lines)
		a.recent[i] = storage.Batch{}
	}
	a.recent = a.recent[n:]
	if len(a.recent) == 0 {
		a.recent = nil
	}
}

// Active stores an index entry in the background, once a day.
func (a *Archive) Active(e storage.IndexEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.day == e.Day {
		return
	}
	a.day, a.entry = e.Day, &e
	a.saveInBackground()
}

// index stores an index entry unless it exists, and returns the day of the newest stored one. A
// failure is retried with the next checkpoint and blocks nothing else.
func (a *Archive) index(ctx context.Context, e storage.IndexEntry) string {
	indexed := a.DayIndexed()
	if indexed == e.Day {
		return indexed
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	if err := a.store.o.Logs.PutIndex(ctx, e); err != nil {
		a.log.Warn("store index entry failed", "day", e.Day, "err", err)
		return indexed
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.indexed = e.Day
	return e.Day
}

// DayIndexed returns the day of the newest stored index entry, "" if none is known.
func (a *Archive) DayIndexed() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.indexed
}

// archive compacts the log into segments up to a stored checkpoint, so that a reader that starts there
// never misses deleted batches.
func (a *Archive) archive(ctx context.Context, upTo int64) {
	a.mu.Lock()
	recent := slices.Clone(a.recent) // Wrote drops batches beyond its limit
	a.mu.Unlock()
	bound, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	garbage, err := a.segments.Compact(bound, upTo, recent, a.store.o.SegmentBatches)
	if err != nil && ctx.Err() == nil {
		a.log.Warn("compact log failed", "offset", upTo, "err", err)
	}
	a.store.garbage.add(a.key, garbage)
	covered := a.segments.Covered()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.recent) && a.recent[n].Seq <= covered {
		n++
	}
	a.drop(n)
}
