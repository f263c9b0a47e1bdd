package follower_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
)

// heldFold is a set in which the fold for one old batch waits until proceed is closed. In a synctest
// bubble, time passes for goroutines that wait for a channel, but not for those that wait for a mutex.
type heldFold struct {
	*follower.Set
	history *history
	old     []conversation.Offset // batches that need the state at them
	stays   <-chan error          // result of the read that folds up to old[0]
	proceed chan struct{}
}

func newHeldFold(t *testing.T) *heldFold {
	h := turns(t, 6)
	source := newBucket(h.pushes...)
	f := &heldFold{history: h, proceed: make(chan struct{})}
	for i, p := range h.pushes {
		for _, r := range p.records {
			switch r.(type) {
			case *conversation.StepDropped, *conversation.Compacted:
				f.old = append(f.old, conversation.Offset(i))
			}
		}
	}
	f.Set = start(t, source, &follower.Options{RetainBytes: 1, LoadTimeout: time.Minute})
	wantHead(t, f.Set, h.head())
	held, first := make(chan struct{}), true
	source.listed = func(context.Context) {
		if first {
			first = false
			close(held)
			<-f.proceed
		}
	}
	f.stays = f.read(t, f.old[0], time.Hour)
	<-held
	return f
}

func (f *heldFold) read(t *testing.T, off conversation.Offset, timeout time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		page, err := f.Updates(ctx, address(), off-1, 1)
		if err == nil && string(page.JSON) != f.history.page(off-1, off) {
			err = errors.New("the page is another")
		}
		done <- err
	}()
	return done
}

func TestColdReadCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHeldFold(t)
		began := time.Now()
		other, same := f.read(t, f.old[1], time.Second), f.read(t, f.old[0], 2*time.Second)
		if err := <-other; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("read waiting for the fold: %v after %v, want deadline exceeded after 1s", err, time.Since(began))
		}
		if err := <-same; !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("read waiting for the same page: %v after %v, want deadline exceeded after 2s", err, time.Since(began))
		}
		close(f.proceed)
		if err := <-f.stays; err != nil {
			t.Errorf("remaining reader: %v", err)
		}
		for _, off := range f.old {
			if err := <-f.read(t, off, time.Hour); err != nil {
				t.Errorf("later read of batch %d: %v", off, err)
			}
		}
	})
}

func TestWaitForAFoldTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newHeldFold(t)
		began := time.Now()
		err := <-f.read(t, f.old[1], time.Hour)
		wantCode(t, "a read behind the fold", err, conversation.CodeUnavailable)
		if time.Since(began) != time.Minute {
			t.Errorf("timeout after %v, want 1m", time.Since(began))
		}
		close(f.proceed)
		<-f.stays // expires at the same moment, with either result
		if err := <-f.read(t, f.old[1], time.Hour); err != nil {
			t.Errorf("later read: %v", err)
		}
	})
}
