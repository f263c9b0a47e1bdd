package follower

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// errOverdue is the cancellation cause after a timeout.
var errOverdue = errors.New("the bucket is overdue")

// WithTimeout returns a source that bounds each wait for the bucket by timeout: for a checkpoint, a
// page, a range, and for every batch of a log. A log of any length is read as long as there is
// progress. Time that the consumer spends on a batch does not count.
func Patient(source Source, each time.Duration) Source { return &patient{source, each} }

type patient struct {
	source Source
	each   time.Duration
}

// overdue converts the error of a read that timed out into [storage.ErrUnavailable], because it proves
// nothing about the stored data.
func overdue(limited context.Context, conv conversation.Key, err error) error {
	if err == nil || !errors.Is(context.Cause(limited), errOverdue) || permanent(err) {
		return err
	}
	return &storage.Error{Op: "read", Key: storage.FolderOf(conv), Kind: storage.ErrUnavailable, Err: err}
}

// batches reads a log with a timeout per batch.
func (p *patient) batches(ctx context.Context, conv conversation.Key, after storage.Position, read readBatches) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		limit := time.AfterFunc(p.each, func() { cancel(errOverdue) })
		defer limit.Stop()
		for b, err := range read(ctx, conv, after) {
			limit.Stop()
			if !yield(b, overdue(ctx, conv, err)) || err != nil {
				return
			}
			limit.Reset(p.each)
		}
		// A read stopped by the timeout has not reached the head, even if it returns no error.
		if err := overdue(ctx, conv, ctx.Err()); err != nil {
			yield(storage.Batch{}, err)
		}
	}
}

// Batches implements [Source].
func (p *patient) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return p.batches(ctx, conv, after, p.source.Batches)
}

// Resume implements [Source].
func (p *patient) Resume(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return p.batches(ctx, conv, after, p.source.Resume)
}

// Checkpoint implements [Source].
func (p *patient) Checkpoint(ctx context.Context, conv conversation.Key) (*storage.Checkpoint, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.each, errOverdue)
	defer cancel()
	c, err := p.source.Checkpoint(ctx, conv)
	return c, overdue(ctx, conv, err)
}

// Page implements [Source].
func (p *patient) Page(ctx context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.each, errOverdue)
	defer cancel()
	data, err := p.source.Page(ctx, conv, ref)
	return data, overdue(ctx, conv, err)
}

// Range implements [Source].
func (p *patient) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.each, errOverdue)
	defer cancel()
	batches, err := p.source.Range(ctx, conv, first, last)
	return batches, overdue(ctx, conv, err)
}
