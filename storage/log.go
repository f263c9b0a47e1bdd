package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage/segment"
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
	// RangeBytes is the size of record lines, in bytes, after which [Logs.Range] ends. 0 is 4 MiB.
	RangeBytes int
	// Retry configures the retries of requests.
	Retry Retry
}

// Logs reads and writes the logs of all conversations in one bucket. It is safe for concurrent use.
type Logs struct {
	bucket   Bucket
	frames   *segment.Framer
	segments *segment.Codec
	prefetch int
	pageKeys int
	ranged   int // bytes
	sizes    sizes
	retry    *retry
}

// NewLogs returns the logs in b.
func NewLogs(b Bucket, opts *LogOptions) *Logs {
	var o LogOptions
	if opts != nil {
		o = *opts
	}
	limit, parallel := orDefault(o.MaxBatchBytes, DefaultMaxBytes), runtime.GOMAXPROCS(0)
	return &Logs{
		bucket:   b,
		frames:   segment.NewFramer(limit, parallel),
		segments: segment.NewCodec(limit, parallel),
		prefetch: orDefault(o.Prefetch, 8),
		pageKeys: min(1000, orDefault(o.PageKeys, 1000)),
		ranged:   orDefault(o.RangeBytes, 4<<20),
		sizes:    defaultSizes(),
		retry:    newRetry(o.Retry),
	}
}

// Batches yields every batch after a position, in order, up to the end that one LIST shows. It stops
// after the first error. A [*GapError] or [*CorruptError] means that the log must not be served beyond
// the last batch yielded; an [*Error] means that the bucket did not answer. Each range over the result
// reads again; all its requests have ended when it ends. The consumer owns the batches.
func (l *Logs) Batches(ctx context.Context, conv conversation.Key, after Position) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		err := l.walk(ctx, conv, after, after.Seq, func(b Batch) bool { return yield(b, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(Batch{}, fmt.Errorf("read log of %s: %w", conv, err))
		}
	}
}

// Resume is [Logs.Batches] after the position of a checkpoint. The position is untrusted: if the log
// does not reach it, Resume yields a [*GapError].
func (l *Logs) Resume(ctx context.Context, conv conversation.Key, after Position) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		err := l.walk(ctx, conv, after, after.Seq-1, func(b Batch) bool { return yield(b, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(Batch{}, fmt.Errorf("resume log of %s: %w", conv, err))
		}
	}
}

// Tail returns the highest sequence number above after, or after if there is none. It uses LIST and
// reads no batch.
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

// query returns the listing of the log above a sequence number.
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

// validAfter checks a conversation key and a sequence number.
func validAfter(conv conversation.Key, after int64) error {
	if err := validConv(conv); err != nil {
		return err
	}
	if after < -1 || after > maxSeq {
		return &Error{Op: "list", Key: logPrefix(conv), Kind: ErrRefused, Err: fmt.Errorf("position %d is out of range", after)}
	}
	return nil
}

const (
	// fetchBytes bounds the stored bytes that one reader prefetches, in addition to the object that it
	// waits for.
	fetchBytes = 16 << 20
	// decodeOvertook bounds the content, in bytes, that is decoded before its turn, because a small
	// object may decompress to much more.
	decodeOvertook = 256 << 10
)

// fetched is the result of one prefetch.
type fetched struct {
	batch Batch
	data  []byte // nil if data is already decoded
	size  int64  // size of the object in bytes
	err   error
}

// fetch gets count batches from first on, several at once, and visits them in order. size returns the
// stored bytes of one batch; it is nil if unknown. All goroutines of fetch have returned when it
// returns.
func (l *Logs) fetch(ctx context.Context, conv conversation.Key, first, count int64, size func(i int64) int64, visit func(Batch) error) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	largest := int64(fetchBytes / 2) // until a size is known
	stated := size
	if size == nil {
		size, stated = func(int64) int64 { return largest }, func(int64) int64 { return -1 }
	}
	slots := make([]chan fetched, min(count, int64(l.prefetch)))
	held, costs := int64(0), make([]int64, len(slots))
	for i, next := int64(0), int64(0); i < count; i++ {
		for next < count && next-i < int64(len(slots)) && (next == i || held+size(next) <= fetchBytes) {
			slot, seq := make(chan fetched, 1), first+next
			at := next % int64(len(slots))
			slots[at], costs[at] = slot, size(next)
			held += costs[at]
			listed := stated(next)
			wg.Go(func() { slot <- l.get(ctx, conv, seq, listed, decodeOvertook) })
			next++
		}
		at := i % int64(len(slots))
		f := <-slots[at]
		held -= costs[at]
		if i == 0 {
			largest = 0
		}
		largest = max(largest, f.size)
		if f.err == nil && f.data != nil {
			if f.batch, f.err = l.decode(conv, first+i, f.data); f.err != nil {
				f = l.get(ctx, conv, first+i, stated(i), math.MaxInt64)
			}
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

// get reads an object of size bytes, -1 if unknown, and decodes it unless it holds more than ahead
// bytes.
func (l *Logs) get(ctx context.Context, conv conversation.Key, seq, size, ahead int64) fetched {
	o := l.retry.reads(l.bucket, LogKey(conv, seq))
	o.size = size
	f, err := readDecoded(ctx, o, func(data []byte) (fetched, error) {
		f := fetched{size: int64(len(data))}
		if segment.ContentSize(data) > ahead {
			f.data = data
			return f, nil
		}
		var err error
		f.batch, err = l.decode(conv, seq, data)
		return f, err
	})
	if errors.Is(err, ErrNotFound) {
		err = &GapError{Conv: conv, Seq: seq, Next: -1}
	}
	f.err = err
	return f
}

// decode returns the batch stored under seq.
func (l *Logs) decode(conv conversation.Key, seq int64, data []byte) (Batch, error) {
	b, err := decodeBatch(l.frames, data)
	if err == nil && b.Seq != seq {
		err = fmt.Errorf("header names batch %d", b.Seq)
	}
	if err != nil {
		return Batch{}, &CorruptError{Conv: conv, Key: LogKey(conv, seq), Seq: seq, Err: err}
	}
	return b, nil
}
