package follower_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// start returns a set that runs until the test ends.
func start(t testing.TB, source follower.Source, options *follower.Options) *follower.Set {
	t.Helper()
	s, err := follower.New(source, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return s
}

func offer(s *follower.Set, pushes ...push) {
	for _, p := range pushes {
		s.Offer(address().Key(), p.at, p.prev, p.records, len(p.lines))
	}
}

func updates(t testing.TB, s *follower.Set, after conversation.Offset, limit int) conversation.Page {
	t.Helper()
	page, err := s.Updates(t.Context(), address(), after, limit)
	if err != nil {
		t.Fatalf("updates after %d: %v", after, err)
	}
	return page
}

func wantHead(t testing.TB, s *follower.Set, want conversation.Offset) {
	t.Helper()
	if got, err := s.Head(t.Context(), address()); err != nil || got != want {
		t.Fatalf("head = %d, %v, want %d", got, err, want)
	}
}

func wantCode(t testing.TB, name string, err error, want conversation.Code) {
	t.Helper()
	if err == nil || conversation.CodeOf(err) != want {
		t.Errorf("%s: error %v, want code %s", name, err, want)
	}
}

// wantAll reads the log in pages of limit and compares each with the projection of its batches.
func wantAll(t testing.TB, s *follower.Set, h *history, limit int) {
	t.Helper()
	for after := conversation.Start; ; {
		page := updates(t, s, after, limit)
		if n := int(page.Next - max(after, h.born-1)); n > limit {
			t.Fatalf("page after %d has %d batches, limit %d", after, n, limit)
		}
		if diff := cmp.Diff(h.page(after, page.Next), string(page.JSON)); diff != "" {
			t.Fatalf("page after %d (-want +got):\n%s", after, diff)
		}
		if page.UpToDate != (page.Next == h.head()) {
			t.Fatalf("page after %d: UpToDate %t at %d, head is %d", after, page.UpToDate, page.Next, h.head())
		}
		if page.UpToDate {
			return
		}
		if page.Next <= after {
			t.Fatalf("page after %d ends at %d", after, page.Next)
		}
		after = page.Next
	}
}

// covers: protocol/13, protocol/113, protocol/115
func TestPagesEqualTheProjection(t *testing.T) {
	for _, tt := range []struct {
		name   string
		retain int
		live   bool
	}{
		{"all retained, read from the bucket", 1 << 20, false},
		{"all retained, pushed", 1 << 20, true},
		{"little retained, read from the bucket", 600, false},
		{"little retained, pushed", 600, true},
		{"one batch retained", 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := turns(t, 12)
			source := newBucket(h.pushes...)
			if tt.live {
				source = newBucket(h.pushes[:1]...)
			}
			s := start(t, source, &follower.Options{RetainBytes: tt.retain})
			if tt.live {
				wantHead(t, s, 0)
				for _, p := range h.pushes[1:] {
					source.store(p)
					offer(s, p)
				}
			}
			for _, limit := range []int{1, 3, 1000} {
				wantAll(t, s, h, limit)
			}
			for after := conversation.Start; after <= h.head(); after++ {
				page := updates(t, s, after, 4)
				if diff := cmp.Diff(h.page(after, page.Next), string(page.JSON)); diff != "" {
					t.Fatalf("page after %d (-want +got):\n%s", after, diff)
				}
			}
			page, err := s.Snapshot(t.Context(), address())
			want := conversation.Page{JSON: []byte(h.snapshot()), Next: h.head(), UpToDate: true}
			if diff := cmp.Diff(want, page); err != nil || diff != "" {
				t.Errorf("snapshot: %v (-want +got):\n%s", err, diff)
			}
			wantHead(t, s, h.head())
		})
	}
}

func TestBatchIsEncodedOnceForAllReaders(t *testing.T) {
	const readers = 100
	h := turns(t, 2)
	source := newBucket(h.pushes[:3]...)
	s := start(t, source, nil)
	wantHead(t, s, 2)

	next := h.pushes[3]
	pages := make([]conversation.Page, readers)
	var wg, waiting sync.WaitGroup
	waiting.Add(readers)
	for i := range readers {
		wg.Go(func() {
			waiting.Done()
			if err := s.Wait(t.Context(), address(), 2); err != nil {
				t.Error(err)
			}
			var err error
			if pages[i], err = s.Updates(t.Context(), address(), 2, 10); err != nil {
				t.Error(err)
			}
		})
	}
	waiting.Wait()
	before := s.Stats()
	source.store(next)
	offer(s, next)
	wg.Wait()
	if got := s.Stats().Encoded - before.Encoded; got != 1 {
		t.Errorf("encoded %d times, want once", got)
	}
	for i, p := range pages {
		if &p.JSON[0] != &pages[0].JSON[0] || len(p.JSON) != len(pages[0].JSON) {
			t.Fatalf("reader %d got its own bytes", i)
		}
	}
	if got, want := string(pages[0].JSON), h.page(2, 3); got != want {
		t.Errorf("page %s, want %s", got, want)
	}
	// Pages of several batches are joined from the same encodings, once.
	offer(s, h.pushes[4:]...)
	a, b := updates(t, s, 2, 1000), updates(t, s, 2, 1000)
	if &a.JSON[0] != &b.JSON[0] || string(a.JSON) != h.page(2, h.head()) {
		t.Errorf("joined pages differ: %s", a.JSON)
	}
	if got, want := s.Stats().Encoded-before.Encoded, int64(len(h.pushes)-3); got != want {
		t.Errorf("%d encodings, want %d", got, want)
	}
	if loads, ranges := source.counts(); loads != 1 || ranges != 0 {
		t.Errorf("%d loads and %d ranges, want one load", loads, ranges)
	}
}

func TestSnapshotIsEncodedOncePerOffset(t *testing.T) {
	h := turns(t, 1)
	s := start(t, newBucket(h.pushes[:4]...), nil)
	read := func() conversation.Page {
		p, err := s.Snapshot(t.Context(), address())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := read(), read()
	offer(s, h.pushes[4])
	c := read()
	if &a.JSON[0] != &b.JSON[0] || s.Stats().Snapshots != 2 {
		t.Errorf("%d encodings for two offsets, shared %t", s.Stats().Snapshots, &a.JSON[0] == &b.JSON[0])
	}
	if a.Next != 3 || c.Next != 4 || bytes.Equal(a.JSON, c.JSON) {
		t.Errorf("snapshots at %d and %d are %s and %s", a.Next, c.Next, a.JSON, c.JSON)
	}
}

func wantAbsent(t *testing.T, s *follower.Set) {
	t.Helper()
	_, err := s.Head(t.Context(), address())
	wantCode(t, "head", err, conversation.CodeStreamNotFound)
	_, err = s.Snapshot(t.Context(), address())
	wantCode(t, "snapshot", err, conversation.CodeStreamNotFound)
	_, err = s.Updates(t.Context(), address(), conversation.Start, 10)
	wantCode(t, "updates", err, conversation.CodeStreamNotFound)
	wantCode(t, "wait", s.Wait(t.Context(), address(), conversation.Start), conversation.CodeStreamNotFound)
}

func TestAbsentUntilCreated(t *testing.T) {
	h := newHistory(t)
	claim := h.add()
	h.turn(0)
	source := newBucket()
	s := start(t, source, nil)
	wantAbsent(t, s)
	source.store(claim)
	wantAbsent(t, s)
	// A creation that was not pushed is found: absence is not cached.
	source.store(h.pushes[1:4]...)
	wantHead(t, s, 3)
	source.store(h.pushes[4:]...)
	offer(s, h.pushes[4:]...)
	wantAll(t, s, h, 2)

	s = start(t, newBucket(), nil)
	wantAbsent(t, s)
	offer(s, h.pushes...)
	wantAll(t, s, h, 100)
}

func TestOfferDuringTheLoadDecides(t *testing.T) {
	h := turns(t, 1)
	source := newBucket()
	s := start(t, source, nil)
	source.listed = func(context.Context) { // the listing was empty; now batch 0 and 1 become durable
		source.mu.Lock()
		source.listed = nil
		source.mu.Unlock()
		source.store(h.pushes[:2]...)
		offer(s, h.pushes[1], h.pushes[0], h.pushes[1])
	}
	wantHead(t, s, 1)
	if loads, _ := source.counts(); loads != 1 {
		t.Errorf("%d loads, want 1", loads)
	}
}

func TestOffsetBeyondTheHead(t *testing.T) {
	h := turns(t, 1)
	source := newBucket(h.pushes[:3]...)
	s := start(t, source, nil)
	wantHead(t, s, 2)
	if p := updates(t, s, 2, 5); string(p.JSON) != "[]" || !p.UpToDate || p.Next != 2 {
		t.Errorf("page at the head is %s, %+v", p.JSON, p)
	}
	_, err := s.Updates(t.Context(), address(), 4, 5)
	wantCode(t, "beyond the head", err, conversation.CodeStreamStoreFailure)
	source.store(h.pushes[3:]...) // durable, but the push was lost
	if p := updates(t, s, 4, 1000); string(p.JSON) != h.page(4, h.head()) || !p.UpToDate {
		t.Errorf("page after the refresh is %s", p.JSON)
	}
}

func TestPushesThatDoNotFit(t *testing.T) {
	h := turns(t, 3)
	forged := func(i int) push {
		p := h.pushes[i]
		p.at.Hash[0] ^= 1
		return p
	}
	unlinked := h.pushes[5]
	unlinked.prev[0] ^= 1
	unlinked.at.Hash[0] ^= 1
	unfoldable := h.pushes[5]
	unfoldable.records = []conversation.Record{delta("msg_unknown", "?")}
	for _, tt := range []struct {
		name   string
		stored int // batches in the bucket when the pushes arrive; 5 are known
		pushes []push
		loads  int
		head   conversation.Offset
	}{
		{"duplicates are ignored", 5, []push{h.pushes[0], h.pushes[4], h.pushes[2]}, 1, 4},
		{"the next one is taken", 6, []push{h.pushes[5]}, 1, 5},
		{"a gap reads the bucket", 9, []push{h.pushes[8]}, 2, 8},
		{"a fork reads the bucket from the start", 5, []push{forged(4)}, 2, 4},
		{"an old fork does as well", 5, []push{forged(1)}, 2, 4},
		{"another previous hash reads the bucket", 6, []push{unlinked}, 2, 5},
		{"records that cannot be folded are read from the bucket", 6, []push{unfoldable}, 2, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := newBucket(h.pushes[:5]...)
			s := start(t, source, nil)
			wantHead(t, s, 4)
			source.store(h.pushes[5:tt.stored]...)
			offer(s, tt.pushes...)
			if err := s.Wait(t.Context(), address(), tt.head-1); err != nil {
				t.Fatal(err)
			}
			wantHead(t, s, tt.head)
			if loads, _ := source.counts(); loads != tt.loads {
				t.Errorf("%d loads, want %d", loads, tt.loads)
			}
			source.store(h.pushes[tt.stored:]...)
			offer(s, h.pushes[tt.stored:]...)
			wantAll(t, s, h, 3)
		})
	}
}

func TestWrongTipIsReset(t *testing.T) {
	h := turns(t, 2)
	forged := h.pushes[5]
	forged.at.Hash[0] ^= 1 // continues the chain but differs from the batch in the bucket
	source := newBucket(h.pushes[:5]...)
	s := start(t, source, nil)
	wantHead(t, s, 4)
	offer(s, forged)
	wantHead(t, s, 5)
	source.store(h.pushes[5:]...)
	offer(s, h.pushes[6])
	if err := s.Wait(t.Context(), address(), h.head()-1); err != nil {
		t.Fatal(err)
	}
	wantAll(t, s, h, 2)
}

func TestManyPushesWithoutReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 300)
		source := newBucket(h.pushes[:2]...)
		s := start(t, source, nil)
		wantHead(t, s, 1)
		source.store(h.pushes[2:]...)
		offer(s, h.pushes[2:]...) // more than a follower queues
		synctest.Wait()
		wantHead(t, s, h.head())
		wantAll(t, s, h, 100)
	})
}

func TestDeletedIncarnationIsHidden(t *testing.T) {
	h := turns(t, 2)
	deleted := h.add(&conversation.ConversationDeleted{})
	before := len(h.pushes)
	source := newBucket(h.pushes[:before-1]...)
	s := start(t, source, nil)
	wantHead(t, s, h.head()-1)
	source.store(deleted)
	offer(s, deleted)
	wantAbsent(t, s)
	h.turn(7)
	source.store(h.pushes[before:]...)
	offer(s, h.pushes[before:]...)
	for _, s := range []*follower.Set{s, start(t, source, nil), start(t, source, &follower.Options{RetainBytes: 1})} {
		wantAll(t, s, h, 2)
		page := updates(t, s, conversation.Start, 1000)
		if bytes.Contains(page.JSON, []byte("question 0")) || !bytes.Contains(page.JSON, []byte("question 7")) {
			t.Errorf("page of a deleted incarnation: %s", page.JSON)
		}
	}
}

func TestBucketErrors(t *testing.T) {
	h := turns(t, 2)
	outage := &storage.Error{Op: "list", Key: "log", Kind: storage.ErrUnavailable}
	source := newBucket(h.pushes...)
	source.fail(outage)
	s := start(t, source, &follower.Options{RetainBytes: 1})
	_, err := s.Head(t.Context(), address())
	wantCode(t, "head", err, conversation.CodeUnavailable)
	var e *conversation.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 || !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("error is %#v, want unavailable with a retry delay", e)
	}
	source.fail(nil)
	wantHead(t, s, h.head())
	source.fail(outage)
	_, err = s.Updates(t.Context(), address(), conversation.Start, 3)
	wantCode(t, "cold page", err, conversation.CodeUnavailable)
	wantHead(t, s, h.head()) // known batches need no bucket
	source.fail(nil)
	wantAll(t, s, h, 3)
}

func TestCorruptLogIsRefusedAndLoggedOnce(t *testing.T) {
	h := turns(t, 1)
	unlinked := h.pushes[2]
	unlinked.prev[0] ^= 1
	unreadable := h.pushes[2]
	unreadable.lines = []byte("{\n")
	unknown := h.pushes[2]
	unknown.lines = []byte(`{"type":"poll_opened","must":true}` + "\n")
	unfoldable := h.pushes[2]
	unfoldable.lines = h.pushes[0].lines
	for name, bad := range map[string]push{
		"chain": unlinked, "record": unreadable, "unknown type": unknown, "fold": unfoldable,
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			source := newBucket(h.pushes[0], h.pushes[1], bad)
			s := start(t, source, &follower.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			code := conversation.CodeInternal
			if name == "unknown type" { // A newer node can read it.
				code = conversation.CodeUnavailable
			}
			for range 3 {
				_, err := s.Head(t.Context(), address())
				wantCode(t, "head", err, code)
				wantCode(t, "wait", s.Wait(t.Context(), address(), 0), code)
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
				t.Errorf("logged %d times, want 1:\n%s", n, log.String())
			}
			if loads, _ := source.counts(); loads != 1 {
				t.Errorf("unexpected number of loads: %d", loads)
			}
		})
	}
}

func TestLoadOutlivesItsCaller(t *testing.T) {
	h := turns(t, 1)
	source := newBucket(h.pushes...)
	listed, proceed := make(chan struct{}), make(chan struct{})
	source.listed = func(context.Context) {
		close(listed)
		<-proceed
	}
	s := start(t, source, nil)
	ctx, leave := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Head(ctx, address())
		first <- err
	}()
	<-listed
	go func() {
		_, err := s.Head(t.Context(), address())
		second <- err
	}()
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled caller: %v", err)
	}
	close(proceed)
	if err := <-second; err != nil {
		t.Errorf("remaining caller: %v", err)
	}
	if loads, _ := source.counts(); loads != 1 {
		t.Errorf("%d loads for two callers, want 1", loads)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := follower.New(nil, nil); err == nil {
		t.Error("New without a source succeeded")
	}
	if _, err := follower.New(newBucket(), &follower.Options{RetainBytes: -1}); err == nil {
		t.Error("New with a negative bound succeeded")
	}
}
