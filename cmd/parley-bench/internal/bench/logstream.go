package bench

import (
	"bytes"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

const (
	// streamLine is the size of a record line of the stream.
	streamLine = 120
	// streamLines are written again and again: more bytes of them than the window of
	// a compressor has, which would find the repetition otherwise.
	streamLines = 40_000
	// streamWaiting is how many bytes of records may wait for an append: what the
	// runtime lets wait before it holds a model back.
	streamWaiting = 4 << 20
)

// waiting are records that wait for the next append.
type waiting struct {
	mu      sync.Mutex
	changed *sync.Cond
	lines   []byte
	since   []time.Time // When each record was there.
	over    bool        // No more will come, or nobody takes them.
}

func newWaiting() *waiting {
	w := &waiting{}
	w.changed = sync.NewCond(&w.mu)
	return w
}

// add waits for room and reports whether anybody will take the line.
func (w *waiting) add(line []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.lines)+len(line) > streamWaiting && !w.over {
		w.changed.Wait()
	}
	if w.over {
		return false
	}
	w.lines, w.since = append(w.lines, line...), append(w.since, time.Now())
	if len(w.since) == 1 {
		w.changed.Signal()
	}
	return true
}

// take waits for records and exchanges all of them for empty slices, whose memory
// is used again. It returns none at the end.
func (w *waiting) take(lines []byte, since []time.Time) ([]byte, []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.since) == 0 && !w.over {
		w.changed.Wait()
	}
	full, times := w.lines, w.since
	w.lines, w.since = lines[:0], since[:0]
	w.changed.Signal()
	return full, times
}

func (w *waiting) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.changed.Broadcast()
}

// saturated streams into one conversation as fast as that takes it: one append is in flight, and what comes
// meanwhile leaves with the next one.
func saturated(ctx context.Context, r *logRun, rows []Scenario) error {
	var lines [][]byte
	for t := newTexts(streamLine); len(lines) < streamLines; {
		line, err := t.delta(streamLine)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	w := r.writer()
	if _, err := w.Append(ctx, bytes.Join(lines[:100], nil), conversation.TimeOf(time.Now())); err != nil { // The claim.
		return err
	}
	q := newWaiting()
	out := &rows[0]
	g, ctx := errgroup.WithContext(ctx)
	before, start := ownUsage(), time.Now()
	g.Go(func() error {
		defer q.end()
		end := start.Add(r.c.Stream)
		for i := 0; i < r.c.StreamBytes/streamLine && ctx.Err() == nil && time.Now().Before(end); i++ {
			if !q.add(lines[i%len(lines)]) {
				return nil
			}
		}
		return nil
	})
	g.Go(func() error {
		defer q.end()
		return drain(ctx, q, w, out)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	out.Seconds = time.Since(start).Seconds()
	out.PerSecond = float64(out.Samples) / out.Seconds
	durable := float64(out.Samples) * streamLine
	out.Figures = append([]Figure{{"durable", durable / 1e6 / out.Seconds, "MB/s"}}, out.Figures...)
	var cpu *float64
	if addCPU(&cpu, before, ownUsage()); cpu != nil {
		out.figure("CPU per GB", *cpu*1e9/durable, "s")
	}
	return nil
}

// drain appends what waits until no more comes.
func drain(ctx context.Context, q *waiting, w *storage.Writer, out *Scenario) error {
	var samples []time.Duration
	var lines []byte
	var since []time.Time
	batches := 0
	for {
		if lines, since = q.take(lines, since); len(since) == 0 {
			break
		}
		if _, err := w.Append(ctx, lines, conversation.TimeOf(time.Now())); err != nil {
			return err
		}
		batches++
		now := time.Now()
		for _, t := range since {
			samples = append(samples, now.Sub(t))
		}
	}
	out.take(samples)
	out.figure("batch", float64(len(samples))*streamLine/1e3/float64(max(1, batches)), "kB")
	return nil
}
