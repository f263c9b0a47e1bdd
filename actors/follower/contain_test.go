package follower_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// panicking is a source that panics at a call of the method over.
type panicking struct {
	*bucket
	over  string // method that panics
	after int
}

func (m *panicking) step(method string) {
	if method != m.over {
		return
	}
	if m.after--; m.after < 0 {
		panic("panicking")
	}
}

func (m *panicking) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for b, err := range m.bucket.Batches(ctx, conv, after) {
			if m.step("batch"); !yield(b, err) {
				return
			}
		}
	}
}

func (m *panicking) Checkpoint(ctx context.Context, conv conversation.Key) (*storage.Checkpoint, error) {
	m.step("checkpoint")
	return m.bucket.Checkpoint(ctx, conv)
}

func (m *panicking) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error) {
	m.step("page")
	return m.bucket.Range(ctx, conv, first, last)
}

func TestPanicOverALog(t *testing.T) {
	h := turns(t, 12)
	for _, tt := range []panicking{{over: "batch"}, {over: "batch", after: 7}, {over: "checkpoint"}, {over: "page"}} {
		t.Run(tt.over, func(t *testing.T) {
			var log bytes.Buffer
			var corrupted, reads, over atomic.Int64
			tt.bucket = newBucket(h.pushes...)
			s := start(t, &tt, &follower.Options{
				RetainBytes: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Corrupt: func(conversation.Key) { corrupted.Add(1) },
				Reading: func(context.Context, conversation.Key) (func(), error) {
					reads.Add(1)
					return func() { over.Add(1) }, nil
				},
			})
			for range 2 {
				_, err := s.Updates(t.Context(), address(), conversation.Start, 1)
				wantCode(t, "read", err, conversation.CodeInternal)
			}
			if corrupted.Load() == 0 {
				t.Error("Corrupt was not called")
			}
			if n := reads.Load(); n == 0 || over.Load() != n {
				t.Errorf("%d reads began and %d ended, want equal and not 0", n, over.Load())
			}
			if !strings.Contains(log.String(), "err.panic=panicking") || !strings.Contains(log.String(), "contain_test.go") {
				t.Errorf("logged:\n%s", log.String())
			}
		})
	}
}

func TestPanicOverAPush(t *testing.T) {
	h := turns(t, 2)
	source := newBucket(h.pushes[:2]...)
	s := start(t, source, nil)
	wantHead(t, s, 1)
	source.store(h.pushes[2])
	bad := h.pushes[2]
	bad.records = []conversation.Record{(*conversation.SubmissionAdmitted)(nil)}
	offer(s, bad)
	wantAll(t, s, h.upTo(2), 3)
}

func TestReadIsPermittedFirst(t *testing.T) {
	source := newBucket(turns(t, 1).pushes...)
	s := start(t, source, &follower.Options{Reading: func(context.Context, conversation.Key) (func(), error) {
		return nil, context.DeadlineExceeded
	}})
	_, err := s.Head(t.Context(), address())
	wantCode(t, "head", err, conversation.CodeUnavailable)
	if loads, _ := source.counts(); loads != 0 {
		t.Errorf("%d loads, want 0", loads)
	}
}
