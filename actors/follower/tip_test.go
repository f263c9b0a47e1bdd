package follower_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

type tipFunc = func(context.Context, conversation.Key) (int64, bool)

// reports returns an owner that always reports seq.
func reports(seq int64) tipFunc {
	return func(context.Context, conversation.Key) (int64, bool) { return seq, true }
}

func noIdea(context.Context, conversation.Key) (int64, bool) { return 0, false }

// tooLate answers after the timeout.
func tooLate(ctx context.Context, _ conversation.Key) (int64, bool) {
	<-ctx.Done()
	return 0, false
}

// reads are the ways to read; each returns the offset that it saw.
var reads = map[string]func(ctx context.Context, s *follower.Set) (conversation.Offset, error){
	"head": func(ctx context.Context, s *follower.Set) (conversation.Offset, error) {
		return s.Head(ctx, address())
	},
	"snapshot": func(ctx context.Context, s *follower.Set) (conversation.Offset, error) {
		page, err := s.Snapshot(ctx, address())
		return page.Next, err
	},
	"updates": func(ctx context.Context, s *follower.Set) (conversation.Offset, error) {
		page, err := s.Updates(ctx, address(), 0, 1000)
		return page.Next, err
	},
	"attachment": func(ctx context.Context, s *follower.Set) (conversation.Offset, error) {
		_, err := s.Attachment(ctx, address(), "att_0")
		if conversation.CodeOf(err) != conversation.CodeAttachmentNotFound {
			return conversation.Start, err
		}
		return s.Head(conversation.Tailing(ctx), address()) // the head that it loaded
	},
	"wait": func(ctx context.Context, s *follower.Set) (conversation.Offset, error) {
		if err := s.Wait(ctx, address(), 1); err != nil { // returns immediately
			return conversation.Start, err
		}
		return s.Head(conversation.Tailing(ctx), address())
	},
}

func TestReadIsAsOfItsStart(t *testing.T) {
	const known, stored = 2, 5 // head of the view, and of the bucket without pushes
	for _, tt := range []struct {
		name    string
		options follower.Options
		tails   bool
		want    conversation.Offset
		tips    int64
		loads   int // in addition to the load that opened
		took    time.Duration
	}{
		{"alone", follower.Options{}, false, known, 0, 0, 0},
		{"the owner is at the view's head", follower.Options{Tip: reports(known)}, false, known, 1, 0, 0},
		{"the owner is behind the view", follower.Options{Tip: reports(-1)}, false, known, 1, 0, 0},
		{"the owner is further", follower.Options{Tip: reports(stored)}, false, stored, 1, 1, 0},
		{"the owner claims too much", follower.Options{Tip: reports(99)}, false, stored, 1, 1, 0},
		{"no owner knows", follower.Options{Tip: noIdea}, false, stored, 1, 1, 0},
		{"the owner is slow", follower.Options{Tip: tooLate}, false, stored, 1, 1, 500 * time.Millisecond},
		{"and timeout is set", follower.Options{Tip: tooLate, TipTimeout: time.Second}, false, stored, 1, 1, time.Second},
		{"strict", follower.Options{Strict: true}, false, stored, 0, 1, 0},
		{"strict against a wrong owner", follower.Options{Strict: true, Tip: reports(known)}, false, stored, 0, 1, 0},
		{"tailing", follower.Options{Tip: noIdea}, true, known, 0, 0, 0},
		{"tailing and strict", follower.Options{Strict: true}, true, known, 0, 0, 0},
	} {
		for name, read := range reads {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := turns(t, 1)
					source := newBucket(h.pushes[:known+1]...)
					s, ctx := start(t, source, &tt.options), t.Context()
					wantHead(t, s, known) // opens without calling Tip
					source.store(h.pushes[known+1 : stored+1]...)
					if tt.tails {
						ctx = conversation.Tailing(ctx)
					}
					began := time.Now()
					got, err := read(ctx, s)
					if err != nil || got != tt.want {
						t.Errorf("saw %d, %v, want %d", got, err, tt.want)
					}
					if took := time.Since(began); took != tt.took {
						t.Errorf("took %v, want %v", took, tt.took)
					}
					if loads, _ := source.counts(); loads != 1+tt.loads || s.Stats().Tips != tt.tips {
						t.Errorf("%d loads and %d tips, want %d and %d", loads, s.Stats().Tips, 1+tt.loads, tt.tips)
					}
				})
			})
		}
	}
}

// TestOnlyTheBucketDenies: an offset beyond the view is checked in the bucket, not with the owner.
func TestOnlyTheBucketDenies(t *testing.T) {
	h := turns(t, 1)
	source := newBucket()
	s := start(t, source, &follower.Options{Tip: reports(-1)})
	wantAbsent(t, s)
	source.store(h.pushes[:3]...)
	wantHead(t, s, 2)
	_, err := s.Updates(t.Context(), address(), 4, 5)
	wantCode(t, "beyond the head", err, conversation.CodeStreamStoreFailure)
	source.store(h.pushes[3:]...)
	if p := updates(t, s, 4, 1000); string(p.JSON) != h.page(4, h.head()) || !p.UpToDate {
		t.Errorf("page beyond the owner's tip is %s", p.JSON)
	}
	if n := s.Stats().Tips; n != 0 {
		t.Errorf("Tip was called %d times, want 0", n)
	}
	// The owner confirms the head of a log whose incarnation was deleted. The bucket read decides
	// absence.
	source.store(h.add(&conversation.ConversationDeleted{}))
	s.Behind(address().Key(), int64(h.head()))
	_, err = s.Head(t.Context(), address())
	wantCode(t, "head of a deleted conversation", err, conversation.CodeStreamNotFound)
}

// gates releases calls one by one.
type gates struct {
	calls atomic.Int64
	open  chan struct{}
}

func newGates() *gates { return &gates{open: make(chan struct{})} }

func (g *gates) pass(ctx context.Context) {
	g.calls.Add(1)
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

// TestReadsShare: reads that arrive during an inquiry need the next one, and share it.
func TestReadsShare(t *testing.T) {
	const many = 500
	for _, tt := range []struct {
		name   string
		strict bool
		cold   bool // reads arrive while the follower is opened
		loads  int
		tips   int64
	}{
		{"tips", false, false, 1, 2},
		{"loads", true, false, 3, 0},
		{"tips after the opening", false, true, 1, 1},
		{"loads after the opening", true, true, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, g := turns(t, 1), newGates()
				source := newBucket(h.pushes...)
				s := start(t, source, &follower.Options{Strict: tt.strict, Tip: func(ctx context.Context, _ conversation.Key) (int64, bool) {
					g.pass(ctx)
					return int64(h.head()), true
				}})
				if !tt.cold {
					wantHead(t, s, h.head())
				}
				source.hook(g.pass)
				var group sync.WaitGroup
				read := func() {
					if got, err := s.Head(t.Context(), address()); err != nil || got != h.head() {
						t.Errorf("head is %d, %v", got, err)
					}
				}
				group.Go(read)
				synctest.Wait()
				for range many {
					group.Go(read)
				}
				synctest.Wait()
				if n := g.calls.Load(); n != 1 {
					t.Errorf("%d concurrent requests, want 1", n)
				}
				for range 2 {
					g.open <- struct{}{}
					synctest.Wait()
				}
				group.Wait()
				if loads, _ := source.counts(); loads != tt.loads || s.Stats().Tips != tt.tips {
					t.Errorf("%d loads and %d tips, want %d and %d", loads, s.Stats().Tips, tt.loads, tt.tips)
				}
			})
		})
	}
}

func TestReaderLeavesAnInquiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, g := turns(t, 1), newGates()
		source := newBucket(h.pushes...)
		s := start(t, source, &follower.Options{TipTimeout: time.Hour, Tip: func(ctx context.Context, _ conversation.Key) (int64, bool) {
			g.pass(ctx)
			return int64(h.head()), ctx.Err() == nil
		}})
		wantHead(t, s, h.head())
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		stays := make(chan error, 1)
		go func() {
			_, err := s.Head(ctx, address())
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("canceled reader: %v, want deadline exceeded", err)
			}
			_, err = s.Head(t.Context(), address())
			stays <- err
		}()
		synctest.Wait()
		time.Sleep(time.Minute)
		g.open <- struct{}{} // inquiry of the canceled reader
		g.open <- struct{}{}
		if err := <-stays; err != nil {
			t.Errorf("remaining reader: %v", err)
		}
		if loads, _ := source.counts(); loads != 1 {
			t.Errorf("%d loads, want 1", loads)
		}
	})
}

func TestStopEndsAnInquiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		s, err := follower.New(newBucket(h.pushes...), &follower.Options{Tip: tooLate, TipTimeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		wantHead(t, s, h.head())
		asking := make(chan error, 1)
		go func() {
			_, err := s.Head(t.Context(), address())
			asking <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		wantCode(t, "a read that asks", <-asking, conversation.CodeUnavailable)
	})
}

// TestTailingIsNotDisturbed: a head check by another read, with or without an answer of the bucket,
// does not affect tailing reads.
func TestTailingIsNotDisturbed(t *testing.T) {
	for name, outage := range map[string]error{
		"the bucket answers":         nil,
		"the bucket does not answer": &storage.Error{Op: "list", Key: "log", Kind: storage.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, g := turns(t, 2), newGates()
				source := newBucket(h.pushes[:3]...)
				s := start(t, source, &follower.Options{Strict: true})
				wantHead(t, s, 2)
				source.fail(outage)
				source.hook(g.pass)
				strict := make(chan error, 1)
				go func() {
					_, err := s.Head(t.Context(), address())
					strict <- err
				}()
				synctest.Wait()
				tail := conversation.Tailing(t.Context())
				at := conversation.Offset(2)
				next := func(p push) {
					done := wait(tail, s, at)
					pending(t, done)
					source.store(p)
					offer(s, p)
					if err := <-done; err != nil {
						t.Fatalf("wait: %v", err)
					}
					page, err := s.Updates(tail, address(), at, 10)
					if err != nil || page.Next != at+1 || string(page.JSON) != h.page(at, page.Next) {
						t.Fatalf("page after %d is %+v, %v", at, page, err)
					}
					at = page.Next
				}
				for _, p := range h.pushes[3:6] {
					next(p)
				}
				done := wait(tail, s, at)
				pending(t, done)
				source.store(h.pushes[6:8]...)
				offer(s, h.pushes[7], h.pushes[6]) // kept, and applied in order
				if err := <-done; err != nil {
					t.Errorf("wait: %v", err)
				}
				last := wait(tail, s, at+1)
				g.open <- struct{}{}
				if err := <-strict; (err != nil) != (outage != nil) {
					t.Errorf("confirming read: %v", err)
				}
				if err := <-last; err != nil {
					t.Errorf("wait: %v", err)
				}
				source.hook(nil)
				source.fail(nil)
				at += 2
				next(h.pushes[8])
				wantAll(t, s, h.upTo(8), 3)
			})
		})
	}
}

// TestPushesDuringAHeadCheck: a batch pushed during a head check may be part of its listing, follow
// it, or neither.
func TestPushesDuringAHeadCheck(t *testing.T) {
	h := turns(t, 1)
	forged := h.pushes[3]
	forged.at.Hash[0] ^= 1
	for _, tt := range []struct {
		name   string
		listed int // batches in the bucket when it is listed; 3 are known
		pushes []push
		later  int // batches in the bucket at the end
		head   conversation.Offset
		loads  int // in addition to the load that opened
		warns  int
	}{
		{"the listed batches", 5, h.pushes[3:5], 5, 4, 1, 0},
		{"some listed batches", 5, h.pushes[3:4], 5, 4, 1, 0},
		{"the following batches", 4, h.pushes[4:6], 6, 5, 1, 0},
		{"listed and following batches", 4, h.pushes[3:6], 6, 5, 1, 0},
		{"a gap", 4, h.pushes[5:6], 6, 5, 2, 0},
		{"another batch under its number", 4, []push{forged}, 4, 3, 2, 1},
		{"and the right batches", 5, []push{forged, h.pushes[3], h.pushes[4]}, 5, 4, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				g, source := newGates(), newBucket(h.pushes[:3]...)
				s := start(t, source, &follower.Options{Strict: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				wantHead(t, s, 2)
				source.store(h.pushes[3:tt.listed]...)
				source.hook(g.pass)
				strict, tail := make(chan conversation.Offset, 1), make(chan conversation.Offset, 1)
				head := func(ctx context.Context, out chan<- conversation.Offset) {
					at, err := s.Head(ctx, address())
					if err != nil {
						t.Errorf("head: %v", err)
					}
					out <- at
				}
				go head(t.Context(), strict)
				synctest.Wait()
				source.store(h.pushes[tt.listed:tt.later]...)
				offer(s, tt.pushes...)
				for range tt.loads {
					g.open <- struct{}{}
					synctest.Wait() // also a reader that arrives after the reset
					go head(conversation.Tailing(t.Context()), tail)
					synctest.Wait()
				}
				for range tt.loads {
					if at := <-tail; at > tt.head {
						t.Errorf("tailing read: head %d, want at most %d", at, tt.head)
					}
				}
				if at := <-strict; at < conversation.Offset(tt.listed-1) {
					t.Errorf("confirming read: head %d, want at least %d", at, tt.listed-1)
				}
				wantLoads(t, source, 1+tt.loads)
				if n := strings.Count(log.String(), "log does not continue"); n != tt.warns {
					t.Errorf("warned %d times, want %d:\n%s", n, tt.warns, log.String())
				}
				source.hook(nil)
				wantAll(t, s, h.upTo(tt.head), 2)
			})
		})
	}
}

// TestAloneReadsAgain: a node that has all writers reads the bucket again after the bucket did not
// answer.
func TestAloneReadsAgain(t *testing.T) {
	h := turns(t, 1)
	source := newBucket(h.pushes[:3]...)
	s := start(t, source, nil)
	wantHead(t, s, 2)
	source.fail(&storage.Error{Op: "list", Key: "log", Kind: storage.ErrUnavailable})
	_, err := s.Updates(t.Context(), address(), 4, 5)
	wantCode(t, "beyond the head", err, conversation.CodeUnavailable)
	source.fail(nil)
	wantHead(t, s, 2)
	if loads, _ := source.counts(); loads != 3 {
		t.Errorf("%d loads, want 3", loads)
	}
}
