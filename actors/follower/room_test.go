package follower_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

func numbered(i int) conversation.Address {
	return conversation.Address{Agent: "triage", ID: fmt.Sprint(i)}
}

// used returns the bytes charged to the followers of a budget.
func used(t *testing.T, b *memory.Budget) int64 {
	t.Helper()
	for _, u := range b.Usage() {
		if u.Account == "followers" {
			return u.Used
		}
	}
	t.Fatalf("accounts %+v", b.Usage())
	return 0
}

// bytesOf returns a bound that fits n followers of a history but not n+1.
func bytesOf(t *testing.T, h *history, n int64) int64 {
	t.Helper()
	budget := memory.New(0)
	s := start(t, newBucket(h.pushes...), &follower.Options{Memory: budget})
	wantHead(t, s, h.head())
	return used(t, budget)*n + used(t, budget)/2
}

// readHead reads the head of a conversation and waits until its load has ended.
func readHead(t *testing.T, s *follower.Set, i int) {
	t.Helper()
	if _, err := s.Head(t.Context(), numbered(i)); err != nil {
		t.Fatalf("head of %d: %v", i, err)
	}
	synctest.Wait()
}

// TestRoomForFollowers: over the bound, followers without readers are evicted first. After that,
// conversations are read without keeping a follower, and waits are refused.
func TestRoomForFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		most, budget := bytesOf(t, h, 2), memory.New(0)
		source := newBucket(h.pushes...) // the same log under every key
		s := start(t, source, &follower.Options{MaxBytes: most, Memory: budget})
		head := func(i, loads int) {
			t.Helper()
			readHead(t, s, i)
			if got, _ := source.counts(); got != loads {
				t.Fatalf("%d loads after reading %d, want %d", got, i, loads)
			}
			if got := used(t, budget); got > most {
				t.Errorf("%d bytes are held after reading %d, want at most %d", got, i, most)
			}
		}
		head(1, 1)
		head(2, 2)
		head(1, 2)
		head(3, 3) // evicts 2
		head(1, 3)
		head(2, 4) // evicts 3
		if u := budget.Usage()[0]; u.Refused != 0 {
			t.Errorf("%d refused, want 0", u.Refused)
		}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, i := range []int{1, 2} {
			go func() { done <- s.Wait(ctx, numbered(i), h.head()) }()
		}
		synctest.Wait()
		head(3, 5) // read and dropped
		head(3, 6)
		if n := s.Stats().Followers; n != 2 {
			t.Errorf("%d followers, want 2 with readers", n)
		}
		err := s.Wait(t.Context(), numbered(3), h.head())
		wantCode(t, "wait when all have readers", err, conversation.CodeUnavailable)
		if u := budget.Usage()[0]; u.Refused != 3 { // including the two that are not kept
			t.Errorf("%d refused, want 3", u.Refused)
		}
		var e *conversation.Error
		if !errors.As(err, &e) || !errors.Is(err, memory.ErrFull) || e.RetryAfter <= 0 || !strings.Contains(e.Details, "of followers") {
			t.Errorf("error is %v, want full with a retry delay", err)
		}
		wantCode(t, "room", s.Room(numbered(3)), conversation.CodeUnavailable)
		if err := s.Room(numbered(1)); err != nil {
			t.Errorf("room next to another reader: %v", err)
		}
		leave()
		<-done
		<-done
		if err := s.Room(numbered(3)); err != nil {
			t.Errorf("room after the readers left: %v", err)
		}
		head(3, 7)
	})
}

// TestIdleFollowersAreEvicted: followers without readers share a bound with other idle memory; the
// least recently used are evicted first.
func TestIdleFollowersAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		most, budget := bytesOf(t, h, 3), memory.New(0)
		idle := budget.Idle(most)
		source := newBucket(h.pushes...) // the same log under every key
		s := start(t, source, &follower.Options{Memory: budget, Idle: idle})
		head := func(i, loads int) {
			t.Helper()
			readHead(t, s, i)
			if got, _ := source.counts(); got != loads {
				t.Fatalf("%d loads after reading %d, want %d", got, i, loads)
			}
			if got := idle.Usage()[0].Held; got > most {
				t.Errorf("%d bytes are idle after reading %d, want at most %d", got, i, most)
			}
		}
		others := idle.Shelf("others")
		head(1, 1)
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Wait(ctx, numbered(1), h.head()) }()
		synctest.Wait()
		for i := range 3 {
			head(2+i, 2+i)
		}
		head(2, 4)
		head(5, 5) // evicts 3
		head(1, 5)
		head(2, 5)
		head(3, 6) // evicts 4
		if u := idle.Usage()[0]; u.Crowded != 2 {
			t.Errorf("usage is %+v, want 2 evicted", u)
		}
		gone := false
		others.Keep(most, func() { gone = true })
		idle.Trim()
		if n := s.Stats().Followers; n != 1 || gone {
			t.Errorf("%d followers, want 1 with a reader; other memory evicted: %v, want false", n, gone)
		}
		leave()
		<-done
		synctest.Wait()
		if n := s.Stats().Followers; n != 1 || !gone {
			t.Errorf("%d followers, want the last used one; other memory evicted: %v, want true", n, gone)
		}
	})
}

// TestRoomOfTheNode: the bound may be the node's budget, which other consumers use up.
func TestRoomOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		budget := memory.New(1 << 20)
		others := budget.Account("others", 0)
		s := start(t, newBucket(h.pushes...), &follower.Options{Memory: budget})
		others.Add(1 << 20)
		wantHead(t, s, h.head())
		synctest.Wait() // the load has ended
		if n := s.Stats().Followers; n != 0 {
			t.Errorf("%d followers kept by a full node, want 0", n)
		}
		wantCode(t, "wait", s.Wait(t.Context(), address(), h.head()), conversation.CodeUnavailable)
		others.Add(-1 << 20)
		wantHead(t, s, h.head())
		synctest.Wait() // the load has ended
		if n := s.Stats().Followers; n != 1 {
			t.Errorf("%d followers, want 1", n)
		}
	})
}

// TestUnusedFollowersExpire: while half of the node's budget is in use, followers without readers are
// kept for one second.
func TestUnusedFollowersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		budget := memory.New(1 << 20)
		others := budget.Account("others", 0)
		s := start(t, newBucket(h.pushes...), &follower.Options{Memory: budget})
		wantHead(t, s, h.head())
		synctest.Wait()
		if n := s.Stats().Followers; n != 1 {
			t.Fatalf("%d followers, want 1", n)
		}
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Wait(ctx, address(), h.head()) }()
		synctest.Wait()
		others.Add(1 << 19)
		for i := range 3 {
			readHead(t, s, i)
		}
		if n := s.Stats().Followers; n != 4 {
			t.Errorf("%d followers, want 4: one with a reader, three used within a second", n)
		}
		time.Sleep(time.Second)
		readHead(t, s, 3)
		if n := s.Stats().Followers; n != 2 {
			t.Errorf("%d followers, want 2: one with a reader, one used within a second", n)
		}
		leave()
		<-done
		time.Sleep(time.Second)
		readHead(t, s, 4)
		if n := s.Stats().Followers; n != 1 {
			t.Errorf("%d followers, want 1 used within a second", n)
		}
	})
}

// TestFollowersCountTheirMemory covers unread pushes, loaded batches, and the release of both.
func TestFollowersCountTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t)
		h.turn(0)
		long := admitted("long", 100)
		long.Delivery.Body = strings.Repeat("x", 1<<20)
		h.add(long)
		budget := memory.New(0)
		source := newBucket(h.pushes...)
		s := start(t, source, &follower.Options{Memory: budget})
		grown := func(when string, least, most int64) {
			t.Helper()
			synctest.Wait()
			if got := used(t, budget); got < least || got > most {
				t.Errorf("%s: %d bytes held, want %d to %d", when, got, least, most)
			}
		}
		wantHead(t, s, h.head())
		grown("state and page", 2<<20, 2<<20+64<<10)
		if _, err := s.Snapshot(t.Context(), address()); err != nil {
			t.Fatal(err)
		}
		grown("with the snapshot", 3<<20, 3<<20+64<<10)
		more := h.add(&conversation.AttemptStarted{Submission: "long", Attempt: 1, Writer: "w"})
		offer(s, more)
		wantHead(t, s, h.head())
		grown("after the snapshot is outdated", 1<<20, 2<<20+64<<10)
		again := admitted("again", 101)
		again.Delivery.Body = strings.Repeat("y", 1<<20)
		before := used(t, budget)
		offer(s, h.add(again))
		grown("an unread push", before+1<<20, before+1<<20+8<<10)
		time.Sleep(time.Minute)
		grown("without readers", 0, 0)
	})
}

// TestFollowersCountLongSnapshots: the source of a long snapshot is kept until a newer snapshot
// replaces it.
func TestFollowersCountLongSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, budget := newHistory(t), memory.New(0)
		h.turn(0)
		long := admitted("long", 100)
		long.Delivery.Body = strings.Repeat("x", 1<<20)
		h.add(long)
		s := start(t, newBucket(h.pushes...), &follower.Options{Memory: budget, HoldBytes: 64 << 10})
		wantHead(t, s, h.head())
		before := used(t, budget)
		page, err := s.Snapshot(t.Context(), address())
		if err != nil || page.Long == nil {
			t.Fatalf("snapshot has %d bytes in memory, %v, want a long page", len(page.JSON), err)
		}
		synctest.Wait()
		if more := used(t, budget) - before; more < 1<<20 || more > 1<<20+64<<10 {
			t.Errorf("%d more bytes charged, want about %d", more, 1<<20)
		}
	})
}

// steps is a bucket that yields a batch each millisecond.
type steps struct{ *bucket }

func (s steps) Batches(ctx context.Context, conv conversation.Key, after storage.Position) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) {
		for b, err := range s.bucket.Batches(ctx, conv, after) {
			time.Sleep(time.Millisecond)
			if !yield(b, err) {
				return
			}
		}
	}
}

// TestLoadsOverTheBound: if memory is short, only few of many concurrent loads are in memory at a
// time.
func TestLoadsOverTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t)
		h.turn(0)
		for i := range 4 {
			long := admitted(conversation.SubmissionID(fmt.Sprint("long_", i)), 100+i)
			long.Delivery.Body = strings.Repeat("x", 32<<10)
			h.add(long)
		}
		one := bytesOf(t, h, 0) * 2 // state and pages; a snapshot is no larger
		const fit, readers = 4, 60
		budget := memory.New(0)
		s := start(t, steps{newBucket(h.pushes...)}, &follower.Options{MaxBytes: fit * one, Memory: budget})
		done, peak := make(chan error, readers), int64(0)
		for i := range readers {
			go func() {
				_, err := s.Snapshot(t.Context(), numbered(i))
				done <- err
			}()
		}
		synctest.Wait()
		for range readers * len(h.pushes) {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			peak = max(peak, used(t, budget))
		}
		for range readers {
			if err := <-done; err != nil {
				t.Errorf("snapshot: %v", err)
			}
		}
		if limit := 3 * (fit + 4) * one; peak > limit {
			t.Errorf("%d KiB held at peak (%d per conversation), want at most %d", peak>>10, one>>10, limit>>10)
		}
	})
}

// TestOldPagesAreCached: a page that is not retained is read once for all readers, and the oldest
// cached pages are evicted.
func TestOldPagesAreCached(t *testing.T) {
	h := turns(t, 6)
	s := start(t, newBucket(h.pushes...), &follower.Options{RetainBytes: 1})
	wantHead(t, s, h.head())
	read := func(after conversation.Offset, pages int64) *byte {
		t.Helper()
		page, err := s.Updates(t.Context(), address(), after, 2)
		if err != nil || string(page.JSON) != h.page(after, after+2) || page.Next != after+2 {
			t.Fatalf("page after %d: %s, %v", after, page.JSON, err)
		}
		if got := s.Stats().ColdPages; got != pages {
			t.Errorf("%d pages read after %d, want %d", got, after, pages)
		}
		return &page.JSON[0]
	}
	first := read(0, 1)
	if read(0, 1) != first {
		t.Error("two readers got two copies of a page")
	}
	read(2, 2)
	if read(0, 3) == first {
		t.Error("no page was evicted")
	}
}
