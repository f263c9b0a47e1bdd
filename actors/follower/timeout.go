package follower

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// errTimeout is the cancellation cause after a timeout.
var errTimeout = errors.New("bucket timeout")

// WithTimeout returns a source that bounds each wait for the bucket by timeout: for a checkpoint, a
// page, a range, and for every batch of a log. A log of any length is read as long as there is
// progress. Time that the consumer spends on a batch does not count.
func WithTimeout(source Source, timeout time.Duration) Source { return &timedSource{source, timeout} }

type timedSource struct {
	source  Source
	timeout time.Duration
}

// asTimeout converts the error of a read that timed out into [storage.ErrUnavailable], because it
// proves nothing about the stored data.
func asTimeout(limited context.Context, conv conversation.Key, err error) error {
	if err == nil || !errors.Is(context.Cause(limited), errTimeout) || permanent(err) {
		return err
	}
	return &storage.Error{Op: "read", Key: storage.FolderOf(conv), Kind: storage.ErrUnavailable, Err: err}
}

// batches reads a log with a timeout per batch.
func (p *timedSource) batches(ctx context.Context, conv conversation.Key, after storage.Position, read readBatches) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		limit := time.AfterFunc(p.timeout, func() { cancel(errTimeout) })
		defer limit.Stop()
		for b, err := range read(ctx, conv, after) {
			limit.Stop()
			if !yield(b, asTimeout(ctx, conv, err)) || err != nil {
				return
			}
			limit.Reset(p.timeout)
		}
		// A read stopped by the timeout has not reached the head, even if it returns no error.
		if err := asTimeout(ctx, conv, ctx.Err()); err != nil {
			yield(storage.Batch{}, err)
		}
	}
}

// Batches implements [Source].
func (p *timedSource) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return p.batches(ctx, conv, after, p.source.Batches)
}

// Resume implements [Source].
func (p *timedSource) Resume(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return p.batches(ctx, conv, after, p.source.Resume)
}

// Checkpoint implements [Source].
func (p *timedSource) Checkpoint(ctx context.Context, conv conversation.Key) (*storage.Checkpoint, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
	defer cancel()
	c, err := p.source.Checkpoint(ctx, conv)
	return c, asTimeout(ctx, conv, err)
}

// Page implements [Source].
func (p *timedSource) Page(ctx context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
	defer cancel()
	data, err := p.source.Page(ctx, conv, ref)
	return data, asTimeout(ctx, conv, err)
}

// Range implements [Source].
func (p *timedSource) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, errTimeout)
	defer cancel()
	batches, err := p.source.Range(ctx, conv, first, last)
	return batches, asTimeout(ctx, conv, err)
}
