package follower_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

func wait(ctx context.Context, s *follower.Set, after conversation.Offset) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx, address(), after) }()
	return done
}

func pending(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("wait returned %v", err)
	default:
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		source := newBucket(h.pushes[:3]...)
		s := start(t, source, nil)
		if err := s.Wait(t.Context(), address(), 1); err != nil {
			t.Fatalf("the head is past 1: %v", err)
		}
		near, far := wait(t.Context(), s, 2), wait(t.Context(), s, 4)
		pending(t, near)
		offer(s, h.pushes[2]) // known
		pending(t, near)
		offer(s, h.pushes[3])
		if err := <-near; err != nil {
			t.Error(err)
		}
		offer(s, h.pushes[4])
		pending(t, far)
		offer(s, h.pushes[5])
		if err := <-far; err != nil {
			t.Error(err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Wait(ctx, address(), 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait without a batch ended with %v", err)
		}
	})
}

func TestWaitSeesClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		claim := h.add()
		n := claim.at.Seq
		s := start(t, newBucket(h.pushes[:n]...), nil)
		done := wait(t.Context(), s, conversation.Offset(n-1))
		pending(t, done)
		offer(s, claim)
		if err := <-done; err != nil {
			t.Error(err)
		}
		page := updates(t, s, conversation.Offset(n-1), 1)
		if string(page.JSON) != "[]" || int64(page.Next) != n || !page.UpToDate {
			t.Errorf("page of a claim is %s, %+v", page.JSON, page)
		}
	})
}

func TestWaitEndsWhenTheBucketIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		source := newBucket(h.pushes[:3]...)
		s := start(t, source, nil)
		done := wait(t.Context(), s, 2)
		pending(t, done)
		source.fail(&storage.Error{Op: "list", Kind: storage.ErrUnavailable})
		offer(s, h.pushes[4]) // a gap: the bucket has to be read
		wantCode(t, "wait", <-done, conversation.CodeUnavailable)
		source.fail(nil)
		source.store(h.pushes[3:]...)
		wantAll(t, s, h, 2)
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		source := newBucket(h.pushes...)
		s, err := follower.New(source, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		done := wait(t.Context(), s, h.head())
		pending(t, done)

		source.mu.Lock()
		source.listed = func(ctx context.Context) { <-ctx.Done() }
		source.mu.Unlock()
		loading := make(chan error, 1)
		go func() {
			_, err := s.Updates(t.Context(), address(), h.head()+1, 1)
			loading <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		wantCode(t, "wait", <-done, conversation.CodeUnavailable)
		wantCode(t, "load", <-loading, conversation.CodeUnavailable)
		_, err = s.Head(t.Context(), address())
		wantCode(t, "head", err, conversation.CodeUnavailable)
	})
}

func TestLoadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newBucket()
		source.listed = func(ctx context.Context) { <-ctx.Done() }
		s := start(t, source, &follower.Options{LoadTimeout: 3 * time.Second})
		began := time.Now()
		_, err := s.Head(t.Context(), address())
		wantCode(t, "head", err, conversation.CodeUnavailable)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestIdleFollowerIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		source := newBucket(h.pushes...)
		s := start(t, source, &follower.Options{IdleAfter: 10 * time.Second})
		ctx, leave := context.WithCancel(t.Context())
		done := wait(ctx, s, h.head())
		pending(t, done)
		time.Sleep(time.Hour) // bubble time: a waiting reader keeps the follower
		if n := s.Stats().Followers; n != 1 {
			t.Fatalf("%d followers while a reader waits, want 1", n)
		}
		leave()
		<-done
		time.Sleep(9 * time.Second)
		if n := s.Stats().Followers; n != 1 {
			t.Fatalf("%d followers before IdleAfter, want 1", n)
		}
		wantHead(t, s, h.head())
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if n := s.Stats().Followers; n != 0 {
			t.Fatalf("%d followers after IdleAfter, want 0", n)
		}
		wantHead(t, s, h.head())
		if loads, _ := source.counts(); loads != 2 {
			t.Errorf("%d loads, want 2", loads)
		}
	})
}

func TestAbsentConversationLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newBucket(), &follower.Options{IdleAfter: 10 * time.Second})
		wantAbsent(t, s)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if n := s.Stats().Followers; n != 0 {
			t.Errorf("%d followers, want 0", n)
		}
	})
}

func TestCorruptLogIsReadAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		source := newBucket(h.pushes...)
		source.fail(&storage.GapError{Seq: 3, Next: 4})
		s := start(t, source, &follower.Options{IdleAfter: 10 * time.Second})
		for range 9 { // a reader that retries
			_, err := s.Head(t.Context(), address())
			wantCode(t, "head", err, conversation.CodeInternal)
			time.Sleep(time.Second)
		}
		source.fail(nil)
		_, err := s.Head(t.Context(), address())
		wantCode(t, "head", err, conversation.CodeInternal)
		time.Sleep(time.Second)
		wantHead(t, s, h.head())
	})
}
