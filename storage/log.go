package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"

	"github.com/parleyrun/parley/conversation"
)

// LogOptions tunes Logs. The zero value works.
type LogOptions struct {
	// MaxBatchBytes bounds the decoded size of one batch, written or read.
	// 0 is DefaultMaxBytes.
	MaxBatchBytes int64
	// Prefetch is how many batches one reader fetches at once. 0 is 8.
	Prefetch int
	// PageKeys is how many keys one LIST asks for, up to 1000. 0 is 1000.
	PageKeys int
	// Retry says how requests are repeated.
	Retry Retry
}

// Logs reads and writes the logs of all conversations in one bucket. It is safe
// for concurrent use.
type Logs struct {
	bucket   Bucket
	frames   *framer
	prefetch int
	pageKeys int
	retry    *retry
}

// NewLogs returns the logs kept in b.
func NewLogs(b Bucket, opts *LogOptions) *Logs {
	var o LogOptions
	if opts != nil {
		o = *opts
	}
	return &Logs{
		bucket:   b,
		frames:   newFramer(orDefault(o.MaxBatchBytes, DefaultMaxBytes), runtime.GOMAXPROCS(0)),
		prefetch: orDefault(o.Prefetch, 8),
		pageKeys: min(1000, orDefault(o.PageKeys, 1000)),
		retry:    newRetry(o.Retry),
	}
}

// Batches yields every batch after a position, in order, as far as one LIST
// shows them. It stops after the first error: a [*GapError] or [*CorruptError]
// says the log must not be served beyond the last batch yielded, an [*Error] that
// the bucket did not answer. Each range over the result reads anew; all requests
// it started are over when the range ends. The consumer owns what it is given.
func (l *Logs) Batches(ctx context.Context, conv conversation.Key, after Position) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		err := l.walk(ctx, conv, after, after.Seq, func(b Batch) bool { return yield(b, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(Batch{}, fmt.Errorf("read log of %s: %w", conv, err))
		}
	}
}

// Resume is Batches after the position of a checkpoint, which is something that
// somebody said about the log: a [*GapError] if the log does not reach it.
func (l *Logs) Resume(ctx context.Context, conv conversation.Key, after Position) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		err := l.walk(ctx, conv, after, after.Seq-1, func(b Batch) bool { return yield(b, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(Batch{}, fmt.Errorf("resume log of %s: %w", conv, err))
		}
	}
}

// errStopped ends a walk whose consumer has enough.
var errStopped = errors.New("stopped by the consumer")

// walk visits the batches after a position, which it finds by a LIST of the keys
// above listed. If that is lower, the log must have a key.
func (l *Logs) walk(ctx context.Context, conv conversation.Key, at Position, listed int64, visit func(Batch) bool) error {
	q, err := l.query(conv, listed)
	if err != nil {
		return err
	}
	reached := listed == at.Seq
	err = listAll(ctx, l.bucket, l.retry, q, func(page []ListedKey) error {
		if !reached && len(page) > 0 && page[0].Key == LogKey(conv, at.Seq) {
			page = page[1:]
		}
		reached = true
		present, gap := contiguous(conv, q.Prefix, page, at.Seq+1)
		err := l.fetch(ctx, conv, at.Seq+1, present, func(b Batch) error {
			if err := follows(conv, b, at); err != nil {
				return err
			}
			at = b.Position()
			if !visit(b) {
				return errStopped
			}
			return nil
		})
		if err != nil {
			return err
		}
		return gap
	})
	if err == nil && !reached {
		err = &GapError{Conv: conv, Seq: at.Seq, Next: -1}
	}
	return err
}

// Range returns the batches first to last, both included, checked against each
// other but not against what is before first. A missing one is a [*GapError].
func (l *Logs) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]Batch, error) {
	if _, err := l.query(conv, first-1); err != nil {
		return nil, fmt.Errorf("read batches %d to %d of %s: %w", first, last, conv, err)
	}
	if last < first {
		return nil, nil
	}
	var batches []Batch
	err := l.fetch(ctx, conv, first, last-first+1, func(b Batch) error {
		if n := len(batches); n > 0 {
			if err := follows(conv, b, batches[n-1].Position()); err != nil {
				return err
			}
		}
		batches = append(batches, b)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read batches %d to %d of %s: %w", first, last, conv, err)
	}
	return batches, nil
}

// Tail returns the highest sequence number above after, or after if there is
// none. It asks the bucket by LIST and reads no batch.
func (l *Logs) Tail(ctx context.Context, conv conversation.Key, after int64) (int64, error) {
	q, err := l.query(conv, after)
	if err == nil {
		err = listAll(ctx, l.bucket, l.retry, q, func(page []ListedKey) error {
			after, err = seqOf(conv, q.Prefix, page[len(page)-1].Key)
			return err
		})
	}
	if err != nil {
		return 0, fmt.Errorf("find tail of %s: %w", conv, err)
	}
	return after, nil
}

// query lists the log above a sequence number.
func (l *Logs) query(conv conversation.Key, after int64) (ListQuery, error) {
	if err := validAfter(conv, after); err != nil {
		return ListQuery{}, err
	}
	q := ListQuery{Prefix: logPrefix(conv), Limit: l.pageKeys}
	if after >= 0 {
		q.After = LogKey(conv, after)
	}
	return q, nil
}

// validAfter checks what stands for a conversation and a place in its log.
func validAfter(conv conversation.Key, after int64) error {
	if err := validConv(conv); err != nil {
		return err
	}
	if after < -1 || after > maxSeq {
		return &Error{Op: "list", Key: logPrefix(conv), Kind: ErrRefused, Err: fmt.Errorf("position %d is out of range", after)}
	}
	return nil
}

// contiguous returns how many keys of a page follow each other from next on, and
// why the rest does not.
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

// follows checks the chain.
func follows(conv conversation.Key, b Batch, at Position) error {
	if b.Prev == at.Hash {
		return nil
	}
	return &CorruptError{Conv: conv, Key: LogKey(conv, b.Seq), Seq: b.Seq,
		Err: fmt.Errorf("follows hash %s, batch %d has %s", b.Prev, at.Seq, at.Hash)}
}

// fetch gets count batches from first on, several at once, and visits them in
// order. Every goroutine it started has returned when it returns.
func (l *Logs) fetch(ctx context.Context, conv conversation.Key, first, count int64, visit func(Batch) error) error {
	type fetched struct {
		batch Batch
		err   error
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make([]chan fetched, min(count, int64(l.prefetch)))
	for i := range slots {
		slots[i] = make(chan fetched, 1)
	}
	start := func(i int64) {
		wg.Go(func() {
			b, err := l.get(ctx, conv, first+i)
			slots[i%int64(len(slots))] <- fetched{b, err}
		})
	}
	for i := range int64(len(slots)) {
		start(i)
	}
	for i := range count {
		f := <-slots[i%int64(len(slots))]
		if next := i + int64(len(slots)); next < count && f.err == nil {
			start(next)
		}
		if f.err != nil {
			return f.err
		}
		if err := visit(f.batch); err != nil {
			return err
		}
	}
	return nil
}

func (l *Logs) get(ctx context.Context, conv conversation.Key, seq int64) (Batch, error) {
	key := LogKey(conv, seq)
	data, err := readRetried(ctx, l.retry, func(ctx context.Context) ([]byte, error) { return l.bucket.Get(ctx, key) })
	if errors.Is(err, ErrNotFound) {
		return Batch{}, &GapError{Conv: conv, Seq: seq, Next: -1}
	}
	if err != nil {
		return Batch{}, err
	}
	return l.decode(conv, seq, data)
}

// decode returns the batch stored under seq.
func (l *Logs) decode(conv conversation.Key, seq int64, data []byte) (Batch, error) {
	b, err := decodeBatch(l.frames, data)
	if err == nil && b.Seq != seq {
		err = fmt.Errorf("header says batch %d", b.Seq)
	}
	if err != nil {
		return Batch{}, &CorruptError{Conv: conv, Key: LogKey(conv, seq), Seq: seq, Err: err}
	}
	return b, nil
}
