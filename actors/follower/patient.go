package follower

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// errOverdue is why a wait for the bucket ended.
var errOverdue = errors.New("the bucket is overdue")

// Patient returns a source that gives each wait for the bucket so much time: for a
// checkpoint, a page, a range, and for every batch of a log. So a log of any length is read
// as long as there is progress. What a consumer does with a batch takes none of that time.
func Patient(source Source, each time.Duration) Source { return &patient{source, each} }

type patient struct {
	source Source
	each   time.Duration
}

// overdue tells what a read ended with once its time was over as a bucket without an
// answer, which says nothing about what is stored.
func overdue(limited context.Context, conv conversation.Key, err error) error {
	if err == nil || !errors.Is(context.Cause(limited), errOverdue) || permanent(err) {
		return err
	}
	return &storage.Error{Op: "read", Key: storage.FolderOf(conv), Kind: storage.ErrUnavailable, Err: err}
}

// batches reads a log, each batch within its time.
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
		// Whoever was stopped has not reached the head, even if it does not say so.
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
