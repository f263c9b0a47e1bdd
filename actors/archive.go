package actors

import (
	"context"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// maxRecentBytes bounds the lines of batches that a history keeps for the next
// compaction of its log, which reads what it lacks.
const maxRecentBytes = 512 << 10

// checkpointHere is a checkpoint of the log as the activation knows it.
func (a *activation) checkpointHere() *dueCheckpoint {
	return &dueCheckpoint{
		Checkpoint: storage.Checkpoint{At: a.tail, Writers: a.writers},
		address:    a.machine.State().Created().Address(), day: storage.DayOf(conversation.TimeOf(time.Now())),
	}
}

// wrote keeps a batch of this writer that is durable and verified.
func (h *history) wrote(b storage.Batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = append(h.recent, b)
	h.bytes += len(b.Lines)
	for h.bytes > maxRecentBytes {
		h.forget(1)
	}
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

// index notes, once a day, that the conversation was active.
func (h *history) index(ctx context.Context, due *dueCheckpoint) error {
	due.Indexed = due.day
	if h.newest != nil && h.newest.Indexed == due.day {
		return nil
	}
	return h.rt.logs.PutIndex(ctx, storage.IndexEntry{Address: due.address, Day: due.day})
}

// archive puts the log into segments as far as a stored checkpoint goes: who opens the
// log from there on never misses what is deleted for it.
func (h *history) archive(ctx context.Context, upTo int64) {
	h.mu.Lock()
	recent := h.recent[:len(h.recent):len(h.recent)]
	h.mu.Unlock()
	garbage, err := h.segments.Compact(ctx, upTo, recent, h.rt.opts.CompactBatches)
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
