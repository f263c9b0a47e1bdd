package history

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/storage"
)

const marksRange = 256

// marking is the position up to which the events of a log were counted.
type marking struct {
	made  *feed.Projector
	seq   int64
	marks feed.Marks
}

// mark adds event marks to a checkpoint: the position of a batch's events in the event stream, for
// readers that start in the middle. It reads recent batches and the log. Marks missing in earlier
// checkpoints are added as far as time allows.
func (a *Archive) mark(ctx context.Context, due *Due) {
	if a.newest != nil {
		due.Events = a.newest.Events
	}
	if !a.store.o.MarkEvents {
		return
	}
	err := a.count(ctx, due.At.Seq)
	if err != nil {
		a.log.Warn("mark events failed", "offset", due.At.Seq, "err", err)
	}
	if a.marking == nil {
		return
	}
	if due.Events, err = a.marking.marks.Encode(); err != nil {
		a.log.Warn("mark events failed", "offset", due.At.Seq, "err", err)
	}
}

func (a *Archive) count(ctx context.Context, last int64) (err error) {
	defer func() {
		if p := recover(); p != nil { // a corrupt log must not end the node
			a.marking, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if a.marking == nil {
		a.marking = resumed(a.newest)
	}
	m := a.marking
	for m.seq < last {
		batches, err := a.after(ctx, m.seq, last)
		if err != nil {
			return err
		}
		for _, b := range batches {
			if err := m.take(b); err != nil {
				a.marking = nil
				return err
			}
		}
	}
	return nil
}

// resumed starts at the newest mark of a checkpoint, or at the beginning of the log.
func resumed(c *storage.Checkpoint) *marking {
	m := &marking{made: new(feed.Projector), seq: -1}
	if c == nil {
		return m
	}
	marks, err := feed.ParseMarks(c.Events)
	last, ok := marks.Last()
	if err != nil || !ok {
		return m
	}
	if made, err := last.Resume(nil); err == nil {
		return &marking{made: made, seq: last.Seq, marks: marks}
	}
	return m
}

func (m *marking) take(b storage.Batch) error {
	if b.Seq != m.seq+1 {
		return fmt.Errorf("count events: batch %d comes after %d", b.Seq, m.seq)
	}
	records, err := conversation.DecodeRecords(b.Lines)
	if err == nil {
		err = m.made.Apply(records, nil)
	}
	if err != nil {
		return fmt.Errorf("count events of batch %d: %w", b.Seq, err)
	}
	m.seq = b.Seq
	m.marks.Note(m.seq, m.made)
	return nil
}

// after returns at least one batch after seq, from memory if possible.
func (a *Archive) after(ctx context.Context, seq, last int64) ([]storage.Batch, error) {
	a.mu.Lock()
	recent := a.recent
	if n := len(recent); n > 0 && recent[0].Seq <= seq+1 && recent[n-1].Seq > seq {
		first, end := seq+1-recent[0].Seq, min(last, recent[n-1].Seq)+1-recent[0].Seq
		out := append([]storage.Batch{}, recent[first:end]...)
		a.mu.Unlock()
		return out, nil
	}
	a.mu.Unlock()
	return a.store.o.Logs.Range(ctx, a.key, seq+1, min(last, seq+marksRange))
}
