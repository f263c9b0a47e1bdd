package follower_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// timeout is the timeout of a bucket operation in these tests.
const timeout = 30 * time.Second

// slow is a bucket that delays every batch, page and checkpoint.
type slow struct {
	*keeping
	takes time.Duration
}

// take sleeps for the delay and reports whether the context is still valid.
func (s *slow) take(ctx context.Context) bool {
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return true
	case <-ctx.Done():
		return false
	}
}

// Batches implements [follower.Source]. It returns no error when it is stopped.
func (s *slow) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for b, err := range s.keeping.Batches(ctx, conv, after) {
			if !s.take(ctx) || !yield(b, err) {
				return
			}
		}
	}
}

// Resume implements [follower.Source].
func (s *slow) Resume(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return s.Batches(ctx, conv, after)
}

// Page implements [follower.Source].
func (s *slow) Page(ctx context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error) {
	if !s.take(ctx) {
		return nil, ctx.Err()
	}
	return s.keeping.Page(ctx, conv, ref)
}

// Checkpoint implements [follower.Source].
func (s *slow) Checkpoint(ctx context.Context, conv conversation.Key) (*storage.Checkpoint, error) {
	if !s.take(ctx) {
		return nil, ctx.Err()
	}
	return s.keeping.Checkpoint(ctx, conv)
}

// persist retries ask until it succeeds. No attempt may take longer than most.
func persist(t *testing.T, most time.Duration, ask func() error) (refused int) {
	t.Helper()
	for {
		began := time.Now()
		err := ask()
		if took := time.Since(began); took > most {
			t.Fatalf("read took %v, want at most %v", took, most)
		}
		if err == nil {
			return refused
		}
		var e *conversation.Error
		if !errors.As(err, &e) || e.Code != conversation.CodeUnavailable || e.RetryAfter <= 0 || refused == 1000 {
			t.Fatalf("refused %d times, then: %v", refused, err)
		}
		refused++
		time.Sleep(e.RetryAfter)
	}
}

// TestLogIsReadHoweverLong: a log whose batches each arrive in time is read once, however long it
// takes in total, for readers that retry.
func TestLogIsReadHoweverLong(t *testing.T) {
	for name, checkpointed := range map[string]bool{"no checkpoint": false, "with a checkpoint": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, k := turns(t, 12), newKeeping(conversation.InlineBytes)
				if checkpointed {
					k.checkpoint(h)
					h.turn(12)
				}
				k.store(h.pushes[k.taken:]...)
				source := &slow{keeping: k, takes: timeout - time.Second}
				s := start(t, source, &follower.Options{LoadTimeout: timeout, RetainBytes: 1})
				began := time.Now()
				refused := persist(t, timeout, func() error {
					_, err := s.Head(t.Context(), address())
					return err
				})
				wantHead(t, s, h.head())
				if took := time.Since(began); refused == 0 || took < 3*timeout {
					t.Errorf("unexpected duration %v or number of refusals %d", took, refused)
				}
				if loads, _ := k.counts(); loads != 1 {
					t.Errorf("%d loads, want 1", loads)
				}
				// A batch with a reset is rebuilt from the log, and so is its body when it is written.
				reset := batchesWith[*conversation.StepDropped](h)[0]
				persist(t, timeout, func() error {
					page, err := s.Updates(t.Context(), address(), reset-1, 1)
					if err == nil && string(page.JSON) != h.page(reset-1, reset) {
						t.Errorf("page %s, want %s", page.JSON, h.page(reset-1, reset))
					}
					return err
				})
				if loads, _ := k.counts(); loads != 2 {
					t.Errorf("%d loads, want one more", loads)
				}
			})
		})
	}
}

// batchesWith returns the batches of a history that hold a record of type T.
func batchesWith[T conversation.Record](h *history) (out []conversation.Offset) {
	for _, p := range h.pushes {
		for _, r := range p.records {
			if _, ok := r.(T); ok {
				out = append(out, conversation.Offset(p.at.Seq))
			}
		}
	}
	return out
}

// TestBucketTimeout: each wait for the bucket times out as unavailable. A timeout is neither taken for
// corruption nor for the end of the log.
func TestBucketTimeout(t *testing.T) {
	h := turns(t, 12)
	k := newKeeping(0)
	k.checkpoint(h)
	reads := map[string]func(ctx context.Context, s follower.Source) error{
		"checkpoint": func(ctx context.Context, s follower.Source) error {
			_, err := s.Checkpoint(ctx, address().Key())
			return err
		},
		"page": func(ctx context.Context, s follower.Source) error {
			_, err := s.Page(ctx, address().Key(), k.pages[0])
			return err
		},
		"batches": func(ctx context.Context, s follower.Source) error {
			for _, err := range s.Batches(ctx, address().Key(), storage.Start()) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"restored": func(ctx context.Context, s follower.Source) error {
			r, _, err := follower.Restore(ctx, s, address().Key(), nil)
			if err == nil && r == nil {
				t.Error("a checkpoint that timed out is reported as absent")
			}
			return err
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				source := follower.WithTimeout(&slow{keeping: k, takes: time.Hour}, timeout)
				if err := read(t.Context(), source); !errors.Is(err, storage.ErrUnavailable) || time.Since(began) != timeout {
					t.Errorf("got %v after %v, want unavailable after %v", err, time.Since(began), timeout)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began = time.Now()
				if err := read(ctx, source); errors.Is(err, storage.ErrUnavailable) || time.Since(began) != time.Second {
					t.Errorf("canceled caller: got %v after %v, want its own error after 1s", err, time.Since(began))
				}
			})
		})
	}
}

// TestConsumersHaveTime: time that the consumer spends on a batch does not count.
func TestConsumersHaveTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		n := 0
		for _, err := range follower.WithTimeout(newBucket(h.pushes...), timeout).Batches(t.Context(), address().Key(), storage.Start()) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * timeout)
			n++
		}
		if n != len(h.pushes) {
			t.Errorf("%d batches, want %d", n, len(h.pushes))
		}
	})
}
