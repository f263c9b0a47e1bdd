package follower_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/storage"
)

type keeping struct {
	*bucket
	stored map[storage.Digest][]byte
	pages  []storage.PageRef
	state  *conversation.State // fold of the log, with pages cut out
	taken  int                 // batches in state
	read   int                 // pages read
	away   error               // error of Page
}

func newKeeping(inline int) *keeping {
	return &keeping{bucket: newBucket(), stored: map[storage.Digest][]byte{}, state: conversation.NewStateHolding(inline)}
}

// Page implements [follower.Source].
func (k *keeping) Page(_ context.Context, conv conversation.Key, ref storage.PageRef) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read++
	return k.stored[ref.Digest], k.away
}

// checkpoint stores the batches of a history and a checkpoint with one page per cut.
func (k *keeping) checkpoint(h *history) {
	h.t.Helper()
	k.store(h.pushes[k.taken:]...)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range h.pushes[k.taken:] {
		if err := k.state.Apply(conversation.Batch{Offset: conversation.Offset(p.at.Seq), Records: p.records}); err != nil {
			h.t.Fatal(err)
		}
		k.taken++
		page, err := k.state.Cut()
		if err != nil {
			h.t.Fatal(err)
		}
		if page == nil {
			continue
		}
		data, err := conversation.EncodeHistory(page)
		if err != nil {
			h.t.Fatal(err)
		}
		ref := storage.PageRef{N: len(k.pages), Digest: sha256.Sum256(data), Size: int64(len(data))}
		k.stored[ref.Digest], k.pages = data, append(k.pages, ref)
	}
	state, err := conversation.EncodeState(k.state)
	if err != nil {
		h.t.Fatal(err)
	}
	k.newest = &storage.Checkpoint{At: h.pushes[k.taken-1].at, Pages: k.pages, State: state}
}

// wholeOf returns the JSON of a page. If long is set, the page must not be held in memory.
func wholeOf(t testing.TB, p conversation.Page, err error, long bool) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if long == (p.Long == nil) {
		t.Errorf("page is long: %v, want %v", p.Long != nil, long)
	}
	b, err := p.Bytes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLongHistoryStaysInTheBucket(t *testing.T) {
	h, k := turns(t, 30), newKeeping(0)
	k.checkpoint(h)
	for n := range 3 { // queued submissions whose bodies stay in the log
		h.add(admitted(conversation.SubmissionID(fmt.Sprintf("sub_wait_%d", n)), 100+n))
	}
	k.store(h.pushes[k.taken:]...)
	k.taken = len(h.pushes)
	s := start(t, k, &follower.Options{HoldBytes: 1000})

	page, err := s.Snapshot(t.Context(), address())
	if got := wholeOf(t, page, err, true); got != h.snapshot() || page.Next != h.head() || !page.UpToDate {
		t.Errorf("snapshot up to %s:\n%s\nwant up to %s:\n%s", page.Next, got, h.head(), h.snapshot())
	}
	if again := wholeOf(t, page, nil, true); again != h.snapshot() {
		t.Error("second write of the page differs")
	}
	// An old reset would repeat a history that was already long.
	reset := resetTo(t, h)
	page, err = s.Updates(t.Context(), address(), conversation.Start+9, 1000)
	if got := wholeOf(t, page, err, true); got != reset || page.Next != h.head() || !page.UpToDate {
		t.Errorf("read of an old reset continues at %s:\n%s\nwant %s:\n%s", page.Next, got, h.head(), reset)
	}
	// So would a new reset.
	before := h.head()
	h.add(&conversation.AttemptStarted{Submission: "sub_wait_0", Attempt: 1, Writer: "w"})
	h.add(&conversation.ResponseStarted{Message: "msg_x", Submission: "sub_wait_0", Turn: "turn_x"}, delta("msg_x", "Well, "))
	h.add(&conversation.StepDropped{Message: "msg_x", Turn: "turn_x"})
	k.store(h.pushes[k.taken:]...)
	offer(s, h.pushes[k.taken:]...)
	page, err = s.Updates(t.Context(), address(), before, 1000)
	if got, want := wholeOf(t, page, err, true), resetTo(t, h); got != want || page.Next != h.head() {
		t.Errorf("read of a new reset continues at %s:\n%s\nwant %s:\n%s", page.Next, got, h.head(), want)
	}
	// Updates without a reset are unchanged.
	before = h.head()
	next := h.add(&conversation.ResponseStarted{Message: "msg_x", Submission: "sub_wait_0", Turn: "turn_y"}, delta("msg_x", "Again."))
	k.store(next)
	offer(s, next)
	if got := updates(t, s, before, 100); string(got.JSON) != h.page(before, h.head()) {
		t.Errorf("update %s, want %s", got.JSON, h.page(before, h.head()))
	}
}

// resetTo returns the chunk that resets a reader to the head of a history.
func resetTo(t testing.TB, h *history) string {
	t.Helper()
	return fmt.Sprintf(`[{"type":"conversation-reset","conversationId":"%s","snapshot":%s,"position":{"batch":%d,"index":0}}]`,
		h.state.Created().ConversationID, h.snapshot(), int64(h.head()))
}

func TestShortHistoryIsHeld(t *testing.T) {
	h, k := turns(t, 30), newKeeping(conversation.InlineBytes)
	k.checkpoint(h)
	s := start(t, k, nil)
	for range 2 {
		page, err := s.Snapshot(t.Context(), address())
		if got := wholeOf(t, page, err, false); got != h.snapshot() {
			t.Errorf("snapshot:\n%s\nwant:\n%s", got, h.snapshot())
		}
	}
	if k.read != len(k.pages) {
		t.Errorf("%d pages were read, want each of %d once", k.read, len(k.pages))
	}
}

func TestLongPageThatCannotBeRead(t *testing.T) {
	h, k := turns(t, 30), newKeeping(0)
	k.checkpoint(h)
	s := start(t, k, &follower.Options{HoldBytes: 1000})
	page, err := s.Snapshot(t.Context(), address())
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	k.away = &storage.Error{Err: errors.New("away")}
	k.mu.Unlock()
	var out strings.Builder
	err = page.Write(t.Context(), &out)
	wantCode(t, "write a snapshot without its bucket", err, conversation.CodeUnavailable)
	if out.Len() == 0 || !strings.HasPrefix(h.snapshot(), out.String()) {
		t.Errorf("written before the failure: %.100q", out.String())
	}
}

// TestFollowerShrinks: a follower that has grown reloads from the newest checkpoint, invisibly to
// readers.
func TestFollowerShrinks(t *testing.T) {
	h, k := newHistory(t), newKeeping(conversation.InlineBytes)
	h.turn(0)
	k.checkpoint(h)
	s := start(t, k, &follower.Options{HoldBytes: 4000, RetainBytes: 1000})
	wantHead(t, s, h.head())
	for n := 20; n < 49; n++ { // no resets
		before := h.head()
		h.turn(n)
		fresh := h.pushes[before+1:]
		k.checkpoint(h)
		for at := before; at < h.head(); {
			offer(s, fresh[at-before])
			at++
			if got := updates(t, s, at-1, 1); string(got.JSON) != h.page(at-1, at) {
				t.Fatalf("update %s:\n%s\nwant:\n%s", at, got.JSON, h.page(at-1, at))
			}
		}
	}
	page, err := s.Snapshot(t.Context(), address())
	if got := wholeOf(t, page, err, true); got != h.snapshot() {
		t.Errorf("snapshot:\n%s\nwant:\n%s", got, h.snapshot())
	}
	if loads := s.Stats().Loads; loads < 3 || loads > 29 {
		t.Errorf("unexpected number of loads: %d", loads)
	}
}

// TestUncheckpointedTailIsNotReadRepeatedly: the log after the newest checkpoint may exceed HoldBytes.
func TestUncheckpointedTailIsNotReadRepeatedly(t *testing.T) {
	h, k := newHistory(t), newKeeping(conversation.InlineBytes)
	h.turn(0)
	k.checkpoint(h)
	s := start(t, k, &follower.Options{HoldBytes: 1000})
	wantHead(t, s, h.head())
	h.add(admitted("sub_long", 1))
	h.add(&conversation.AttemptStarted{Submission: "sub_long", Attempt: 1, Writer: "w"})
	h.add(&conversation.ResponseStarted{Message: "msg_long", Submission: "sub_long", Turn: "turn_long"})
	for range 200 {
		h.add(delta("msg_long", strings.Repeat("x", 100)))
	}
	for _, p := range h.pushes[k.taken:] {
		k.store(p)
		offer(s, p)
		wantHead(t, s, conversation.Offset(p.at.Seq))
	}
	if loads := s.Stats().Loads; loads < 3 || loads > 12 {
		t.Errorf("%d loads, want about once for each time it doubles", loads)
	}
}

// TestLongLogWithoutACheckpoint: history beyond HoldBytes is rebuilt from the log while it is written,
// whether or not a checkpoint has a part of it.
func TestLongLogWithoutACheckpoint(t *testing.T) {
	for name, checkpointed := range map[string]int{"none": 0, "in the middle": 12} {
		t.Run(name, func(t *testing.T) {
			h, k := turns(t, checkpointed), newKeeping(0)
			if checkpointed > 0 {
				k.checkpoint(h)
			} else { // an earlier incarnation, which is not visible
				h.turn(100)
				h.add(&conversation.ConversationDeleted{})
				h.add(&conversation.ConversationCreated{Agent: "chat", ID: "c", UID: "inst_2", ConversationID: "conv_2"})
			}
			for n := checkpointed; n < 30; n++ {
				h.turn(n)
			}
			for n := range 3 { // queued submissions whose bodies stay in the log
				h.add(admitted(conversation.SubmissionID(fmt.Sprintf("sub_wait_%d", n)), 200+n))
			}
			k.store(h.pushes[k.taken:]...)
			s := start(t, k, &follower.Options{HoldBytes: 1000})
			page, err := s.Snapshot(t.Context(), address())
			for range 2 {
				if got := wholeOf(t, page, err, true); got != h.snapshot() || page.Next != h.head() {
					t.Fatalf("snapshot up to %s:\n%s\nwant up to %s:\n%s", page.Next, got, h.head(), h.snapshot())
				}
			}
			next := h.add(&conversation.AttemptStarted{Submission: "sub_wait_0", Attempt: 1, Writer: "w"})
			offer(s, next)
			page, err = s.Snapshot(t.Context(), address())
			if got := wholeOf(t, page, err, true); got != h.snapshot() {
				t.Errorf("snapshot of a later batch:\n%s\nwant:\n%s", got, h.snapshot())
			}
			k.fail(&storage.Error{Err: errors.New("away")})
			wantCode(t, "write a snapshot without its bucket", page.Write(t.Context(), io.Discard), conversation.CodeUnavailable)
		})
	}
}

// TestSlowReaderOfALogReadAgain: the reader's own delays do not count as time of the log read.
func TestSlowReaderOfALogReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := turns(t, 30), newKeeping(0)
		k.store(h.pushes...)
		s := start(t, k, &follower.Options{HoldBytes: 1000, LoadTimeout: time.Second})
		page, err := s.Snapshot(t.Context(), address())
		if err != nil {
			t.Fatal(err)
		}
		var got slowWriter
		if err := page.Write(t.Context(), &got); err != nil || got.String() != h.snapshot() {
			t.Errorf("error %v after\n%s\nwant:\n%s", err, got.String(), h.snapshot())
		}
	})
}

type slowWriter struct{ strings.Builder }

// Write implements io.Writer.
func (d *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(2 * time.Second)
	return d.Builder.Write(p)
}

// TestRoomToReadALogAgain: few slow readers may have a log read again at a time. They do not reduce
// the memory of followers. Others are refused before the first byte is written.
func TestRoomToReadALogAgain(t *testing.T) {
	h, k := turns(t, 30), newKeeping(0)
	k.store(h.pushes...)
	budget := memory.New(0)
	s := start(t, k, &follower.Options{HoldBytes: 1000, MaxBytes: 64 << 20, Memory: budget})
	page, err := s.Snapshot(t.Context(), address())
	if err != nil {
		t.Fatal(err)
	}
	before := used(t, budget)
	var wg sync.WaitGroup
	defer wg.Wait()
	readers := make([]*io.PipeReader, 2)
	for i := range readers {
		from, to := io.Pipe()
		defer from.Close()
		readers[i] = from
		wg.Go(func() { to.CloseWithError(page.Write(t.Context(), to)) })
		if _, err := io.ReadFull(from, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	err = page.Write(t.Context(), &out)
	wantCode(t, "one more", err, conversation.CodeUnavailable)
	var e *conversation.Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 || !strings.Contains(e.Details, "33554432 bytes of rereads") {
		t.Errorf("error is %+v, want a retry delay and the bound of rereads", e)
	}
	if out.Len() > 0 {
		t.Errorf("written before the refusal: %q", out.String())
	}
	if got := used(t, budget); got != before {
		t.Errorf("followers hold %d bytes with slow readers, want %d as before", got, before)
	}
	if _, err := io.Copy(io.Discard, readers[0]); err != nil {
		t.Errorf("first reader: %v", err)
	}
	if got := wholeOf(t, page, nil, true); got != h.snapshot() {
		t.Errorf("snapshot once memory is free:\n%s\nwant:\n%s", got, h.snapshot())
	}
}

// TestNodeMemoryToReadALogAgain: followers without readers are evicted for it.
func TestNodeMemoryToReadALogAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, k := turns(t, 30), newKeeping(0)
		k.store(h.pushes...)
		budget := memory.New(40 << 20)
		others := budget.Account("others", 0)
		s := start(t, k, &follower.Options{HoldBytes: 1000, Memory: budget})
		page, err := s.Snapshot(t.Context(), address())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		// One byte short of the three quarters that large claims may use.
		others.Add(30<<20 - 16<<20 - used(t, budget) + 1)
		if got := wholeOf(t, page, nil, true); got != h.snapshot() {
			t.Errorf("snapshot:\n%s\nwant:\n%s", got, h.snapshot())
		}
		if n := s.Stats().Followers; n != 0 {
			t.Errorf("%d followers kept, want 0", n)
		}
		others.Add(1 << 20)
		err = page.Write(t.Context(), io.Discard)
		wantCode(t, "without room", err, conversation.CodeUnavailable)
	})
}
