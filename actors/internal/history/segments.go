package history

import (
	"context"
	"slices"

	"github.com/parleyrun/parley/storage"
)

// maxRecentBytes bounds the lines of batches that an archive keeps for the next
// compaction of its log, which reads what it lacks.
const maxRecentBytes = 512 << 10

// Wrote keeps a batch for the next compaction.
func (a *Archive) Wrote(b storage.Batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recent = append(a.recent, b)
	a.bytes += len(b.Lines)
	for a.bytes > maxRecentBytes {
		a.forget(1)
	}
}

// Weight is about how much it holds, in bytes.
func (a *Archive) Weight() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held.Load() + int64(a.bytes)
}

// forget drops the oldest of the recent batches. The caller holds mu.
func (a *Archive) forget(n int) {
	for i := range a.recent[:n] {
		a.bytes -= len(a.recent[i].Lines)
		a.recent[i] = storage.Batch{}
	}
	a.recent = a.recent[n:]
	if len(a.recent) == 0 {
		a.recent = nil
	}
}

// Active stores an index entry in the background, once for a day.
func (a *Archive) Active(e storage.IndexEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.day == e.Day {
		return
	}
	a.day, a.entry = e.Day, &e
	a.saveInBackground()
}

// index makes sure of an index entry and returns the day of the newest there is. One
// that cannot be stored is tried again with the next checkpoint, and keeps nothing else
// from being stored.
func (a *Archive) index(ctx context.Context, e storage.IndexEntry) string {
	indexed := a.DayIndexed()
	if indexed == e.Day {
		return indexed
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	if err := a.store.o.Logs.PutIndex(ctx, e); err != nil {
		a.log.Warn("index entry is not stored", "day", e.Day, "err", err)
		return indexed
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.indexed = e.Day
	return e.Day
}

// DayIndexed is the day of the newest index entry that is stored, "" if none is known.
func (a *Archive) DayIndexed() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.indexed
}

// archive puts the log into segments as far as a stored checkpoint goes: who opens the
// log from there on never misses what is deleted for it.
func (a *Archive) archive(ctx context.Context, upTo int64) {
	a.mu.Lock()
	recent := slices.Clone(a.recent) // Wrote drops what it has, if that becomes too much
	a.mu.Unlock()
	bound, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	garbage, err := a.segments.Compact(bound, upTo, recent, a.store.o.SegmentBatches)
	if err != nil && ctx.Err() == nil {
		a.log.Warn("log is not compacted", "offset", upTo, "err", err)
	}
	a.store.garbage.add(a.key, garbage)
	covered := a.segments.Covered()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.recent) && a.recent[n].Seq <= covered {
		n++
	}
	a.forget(n)
}
