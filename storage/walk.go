package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parleyrun/parley/conversation"
)

// errStopped ends a walk whose consumer has stopped.
var errStopped = errors.New("stopped by the consumer")

// walk reads a log from a position on. It reads batch objects and, where one is missing or invalid,
// the segments, which win (R6).
type walk struct {
	logs  *Logs
	conv  conversation.Key
	at    Position // position of the last batch visited
	held  *Batch   // a claim after at that no later batch has confirmed yet
	visit func(Batch) bool
}

// walk visits the batches after a position. It starts with a LIST of the keys above listed. If listed
// is below at, the log must have a key.
func (l *Logs) walk(ctx context.Context, conv conversation.Key, at Position, listed int64, visit func(Batch) bool) error {
	w := &walk{logs: l, conv: conv, at: at, visit: visit}
	for {
		err := w.objects(ctx, listed)
		if err == nil || !IsCorrupt(err) {
			return err
		}
		// A batch that was compacted and deleted, before the LIST or since, is in a segment.
		end, segErr := l.fromSegments(ctx, conv, w.at, maxSeq, true, w.show)
		switch {
		case segErr != nil && !(IsCorrupt(segErr) && end != w.at):
			return segErr
		case end == w.at:
			return err
		}
		// Batch objects behind a corrupt segment may still exist.
		w.at, listed = end, end.Seq
	}
}

// show passes a batch to the consumer.
func (w *walk) show(b Batch) error {
	if !w.visit(b) {
		return errStopped
	}
	return nil
}

// objects visits the batch objects, as far as they are contiguous.
func (w *walk) objects(ctx context.Context, listed int64) error {
	w.held = nil
	q, err := w.logs.query(w.conv, listed)
	if err != nil {
		return err
	}
	reached := listed == w.at.Seq
	for {
		page, err := readRetried(ctx, w.logs.retry, func(ctx context.Context) (ListPage, error) { return w.logs.bucket.List(ctx, q) })
		if err != nil {
			return err
		}
		keys := page.Keys
		if len(keys) == 0 {
			return w.end(q, page, reached)
		}
		q.After = keys[len(keys)-1].Key
		if !reached && keys[0].Key == LogKey(w.conv, w.at.Seq) {
			if len(keys) == 1 && !page.More {
				if err := w.highest(ctx); err != nil {
					return err
				}
			}
			keys = keys[1:]
		}
		reached = true
		present, gap := contiguous(w.conv, q.Prefix, keys, w.next())
		size := func(i int64) int64 { return keys[i].Size }
		if err := w.logs.fetch(ctx, w.conv, w.next(), present, size, w.take); err != nil {
			return err
		}
		if gap != nil {
			return gap
		}
		// List again for a claim at the end: a LIST before the read does not prove that nothing
		// follows it.
		if !page.More && w.held == nil {
			return nil
		}
	}
}

// highest verifies the batch at the start of the walk if nothing continues it. A log with a corrupt
// highest batch must not be continued.
func (w *walk) highest(ctx context.Context) error {
	err := w.logs.fetch(ctx, w.conv, w.at.Seq, 1, nil, func(b Batch) error {
		if b.Hash == w.at.Hash || !checkChain() {
			return nil
		}
		return &CorruptError{Conv: w.conv, Key: LogKey(w.conv, b.Seq), Seq: b.Seq, Err: fmt.Errorf("hash is %s, the checkpoint has %s", b.Hash, w.at.Hash)}
	})
	if err == nil || !IsCorrupt(err) {
		return err
	}
	// It may have been compacted since the LIST; then it is not the highest (R5).
	if tail, err := w.logs.Tail(ctx, w.conv, w.at.Seq); err != nil || tail > w.at.Seq {
		return err
	}
	return err
}

// end handles a page without keys.
func (w *walk) end(q ListQuery, page ListPage, reached bool) error {
	switch {
	case page.More:
		return &Error{Op: "list", Key: q.Prefix, Kind: ErrUnavailable, Err: errors.New("empty page with more to come")}
	case !reached:
		return &GapError{Conv: w.conv, Seq: w.at.Seq, Next: -1}
	case w.held == nil:
		return nil
	}
	// The highest key is never deleted (R5), so no later writer can have taken it.
	return w.confirm()
}

// next returns the number of the next batch to read.
func (w *walk) next() int64 {
	if w.held != nil {
		return w.held.Seq + 1
	}
	return w.at.Seq + 1
}

// take checks a batch object against the batch before it. The key of a compacted and deleted batch may
// be taken again, but only by the claim of a writer with a stale view. Therefore take holds a claim
// back until the next batch continues it or nothing is above it.
func (w *walk) take(b Batch) error {
	if !checkChain() {
		w.at = b.Position()
		return w.show(b)
	}
	at := w.at
	if w.held != nil {
		at = w.held.Position()
	}
	if err := follows(LogKey(w.conv, b.Seq), w.conv, b, at); err != nil {
		return err
	}
	if err := w.confirm(); err != nil {
		return err
	}
	if b.First {
		w.held = &b
		return nil
	}
	w.at = b.Position()
	return w.show(b)
}

// confirm shows the claim that was held back.
func (w *walk) confirm() error {
	if w.held == nil {
		return nil
	}
	b := *w.held
	w.held, w.at = nil, b.Position()
	return w.show(b)
}

// Range returns the batches first to last, inclusive, verified against each other but not against the
// batch before first. It returns at least one batch and stops once they hold [LogOptions.RangeBytes].
// A missing batch is a [*GapError].
func (l *Logs) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]Batch, error) {
	if _, err := l.query(conv, first-1); err != nil {
		return nil, fmt.Errorf("read batches %d to %d of %s: %w", first, last, conv, err)
	}
	r := &ranged{logs: l, conv: conv, first: first, last: last}
	for len(r.batches) < int(last-first+1) && !r.full() {
		err := r.more(ctx)
		if err != nil {
			return nil, fmt.Errorf("read batches %d to %d of %s: %w", first, last, conv, err)
		}
	}
	return r.batches, nil
}

// ranged collects the batches of a Range.
type ranged struct {
	logs        *Logs
	conv        conversation.Key
	first, last int64
	batches     []Batch
	bytes       int // bytes of their lines
}

// full reports whether the byte limit is reached.
func (r *ranged) full() bool { return r.bytes >= r.logs.ranged }

// at returns the current position. Before the first batch its hash is unknown.
func (r *ranged) at() Position {
	if n := len(r.batches); n > 0 {
		return r.batches[n-1].Position()
	}
	return Position{Seq: r.first - 1}
}

func (r *ranged) add(b Batch) error {
	if len(r.batches) > 0 && checkChain() {
		if err := follows(LogKey(r.conv, b.Seq), r.conv, b, r.at()); err != nil {
			return err
		}
	}
	r.batches = append(r.batches, b)
	r.bytes += len(b.Lines)
	if r.full() {
		return errStopped
	}
	return nil
}

// more reads further batches, and returns an error if there was no progress.
func (r *ranged) more(ctx context.Context) error {
	before := len(r.batches)
	// With a corrupt segment, the batch objects may still serve.
	if err := r.covered(ctx); err != nil && !IsCorrupt(err) {
		return err
	}
	if len(r.batches) > before {
		return nil
	}
	next := r.at().Seq + 1
	err := r.logs.fetch(ctx, r.conv, next, r.last-next+1, nil, r.add)
	if errors.Is(err, errStopped) {
		err = nil
	}
	if err != nil && !IsCorrupt(err) {
		return err
	}
	// As in take: the claim that was read last, or an unreadable object, may have taken the key of a
	// batch that is now in a segment.
	if n := len(r.batches); n > before && r.batches[n-1].First && checkChain() {
		claim := r.batches[n-1]
		r.batches = r.batches[:n-1]
		r.bytes -= len(claim.Lines)
		at := r.at()
		if err := r.covered(ctx); err != nil || r.at() != at {
			return err
		}
		r.batches = append(r.batches, claim)
		r.bytes += len(claim.Lines)
	}
	if err == nil || len(r.batches) > before {
		return nil
	}
	if covered := r.covered(ctx); covered != nil || len(r.batches) > before {
		return covered
	}
	return err
}

// covered reads the batches that segments hold.
func (r *ranged) covered(ctx context.Context) error {
	_, err := r.logs.fromSegments(ctx, r.conv, r.at(), r.last, len(r.batches) > 0, r.add)
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// contiguous returns the number of keys of a page that are contiguous from next on, and an error for
// the first that is not.
func contiguous(conv conversation.Key, prefix string, page []ListedKey, next int64) (int64, error) {
	for i, k := range page {
		seq, err := seqOf(conv, prefix, k.Key)
		if err != nil {
			return int64(i), err
		}
		if want := next + int64(i); seq != want {
			return int64(i), &GapError{Conv: conv, Seq: want, Next: seq}
		}
	}
	return int64(len(page)), nil
}

func seqOf(conv conversation.Key, prefix, key string) (int64, error) {
	seq, err := parseNumber(strings.TrimPrefix(key, prefix))
	if err != nil {
		return 0, &CorruptError{Conv: conv, Key: key, Seq: -1, Err: err}
	}
	return seq, nil
}

// follows checks that b continues the chain at a position.
func follows(key string, conv conversation.Key, b Batch, at Position) error {
	if b.Prev == at.Hash {
		return nil
	}
	return &CorruptError{Conv: conv, Key: key, Seq: b.Seq,
		Err: fmt.Errorf("follows hash %s, batch %d has %s", b.Prev, at.Seq, at.Hash)}
}
