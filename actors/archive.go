package actors

import (
	"context"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// maxRecentBytes bounds the lines of batches that a history keeps for the next
// compaction of its log, which reads what it lacks.
const maxRecentBytes = 512 << 10

// checkpointHere is a checkpoint of the log as the activation knows it.
func (a *activation) checkpointHere() *dueCheckpoint {
	writers := a.writers
	if !a.claimed {
		writers-- // this one
	}
	return &dueCheckpoint{
		Checkpoint: storage.Checkpoint{At: a.tail, Writers: writers, Exported: a.witness.exported()},
		address:    a.machine.State().Created().Address(), day: storage.DayOf(conversation.TimeOf(time.Now())),
	}
}

// wrote takes note of a batch of this writer that is durable and verified.
func (a *activation) wrote(b storage.Batch) {
	a.history.wrote(b)
	if created := a.machine.State().Created(); created != nil {
		a.history.active(storage.IndexEntry{Address: created.Address(), Day: storage.DayOf(b.At)})
	}
}

// wrote keeps a batch for the next compaction.
func (h *history) wrote(b storage.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = append(h.recent, b)
	h.bytes += len(b.Lines)
	for h.bytes > maxRecentBytes {
		h.forget(1)
	}
}

// weight is about how much it holds, in bytes.
func (h *history) weight() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held.Load() + int64(h.bytes)
}

// forget drops the oldest of the recent batches. The caller holds mu.
func (h *history) forget(n int) {
	for i := range h.recent[:n] {
		h.bytes -= len(h.recent[i].Lines)
		h.recent[i] = storage.Batch{}
	}
	h.recent = h.recent[n:]
	if len(h.recent) == 0 {
		h.recent = nil
	}
}

// active stores an index entry in the background, once for a day.
func (h *history) active(e storage.IndexEntry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.day == e.Day {
		return
	}
	h.day, h.entry = e.Day, &e
	h.saveInBackground()
}

// index makes sure of an index entry and returns the day of the newest there is. One
// that cannot be stored is tried again with the next checkpoint, and keeps nothing else
// from being stored.
func (h *history) index(ctx context.Context, e storage.IndexEntry) string {
	indexed := h.dayIndexed()
	if indexed == e.Day {
		return indexed
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	if err := h.rt.logs.PutIndex(ctx, e); err != nil {
		h.log.Warn("index entry is not stored", "day", e.Day, "err", err)
		return indexed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.indexed = e.Day
	return e.Day
}

// dayIndexed is the day of the newest index entry that is stored, "" if none is known.
func (h *history) dayIndexed() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.indexed
}

// archive puts the log into segments as far as a stored checkpoint goes: who opens the
// log from there on never misses what is deleted for it.
func (h *history) archive(ctx context.Context, upTo int64) {
	h.mu.Lock()
	recent := slices.Clone(h.recent) // wrote drops what it has, if that becomes too much
	h.mu.Unlock()
	bound, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	garbage, err := h.segments.Compact(bound, upTo, recent, h.rt.opts.CompactBatches)
	if err != nil && ctx.Err() == nil {
		h.log.Warn("log is not compacted", "offset", upTo, "err", err)
	}
	h.rt.garbage.add(h.key, garbage)
	covered := h.segments.Covered()
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.recent) && h.recent[n].Seq <= covered {
		n++
	}
	h.forget(n)
}
