package follower_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
	"github.com/parleyrun/parley/storage"
)

var _ conversation.EventReader = (*follower.Set)(nil)

func (h *history) events() (out [][]byte) {
	h.t.Helper()
	p := new(feed.Projector)
	for _, b := range h.pushes {
		if err := p.Apply(b.records, func(e feed.Event) { out = append(out, e.JSON) }); err != nil {
			h.t.Fatal(err)
		}
	}
	return out
}

func readEvents(t testing.TB, s *follower.Set, after int64, limit int) conversation.EventPage {
	t.Helper()
	page, err := s.Events(t.Context(), address(), after, limit)
	if err != nil {
		t.Fatalf("events after %d: %v", after, err)
	}
	return page
}

// wantEvents reads the stream after an event in pages and compares each page.
func wantEvents(t testing.TB, s *follower.Set, h *history, after int64, limit int) {
	t.Helper()
	all := h.events()
	for {
		page := readEvents(t, s, after, limit)
		last := min(after+int64(limit), int64(len(all))-1)
		want := append(append([]byte{'['}, bytes.Join(all[after+1:last+1], []byte{','})...), ']')
		if page.Next != last || page.UpToDate != (last == int64(len(all))-1) || page.Through != h.head() {
			t.Fatalf("page after %d: got next %d, up to date %t, through %d; want %d of %d, through %d", after, page.Next, page.UpToDate, page.Through, last, len(all), h.head())
		}
		if diff := cmp.Diff(string(want), string(page.JSON)); diff != "" {
			t.Fatalf("page after %d (-want +got):\n%s", after, diff)
		}
		if after = page.Next; page.UpToDate {
			return
		}
	}
}

// covers: beta/17, beta/22
func TestEventsEqualTheProjection(t *testing.T) {
	for _, tt := range []struct {
		name         string
		retain       int
		live, before bool // batches are pushed; events are read before the push
	}{
		{"all retained, read from the bucket", 1 << 20, false, false},
		{"all retained, pushed", 1 << 20, true, true},
		{"pushed before anybody reads", 1 << 20, true, false},
		{"little retained, read from the bucket", 600, false, false},
		{"little retained, pushed", 600, true, true},
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
				if tt.before {
					wantEvents(t, s, h.upTo(0), -1, 100)
				}
				for _, p := range h.pushes[1:] {
					source.store(p)
					offer(s, p)
				}
			}
			for _, limit := range []int{1, 7, 100} {
				wantEvents(t, s, h, -1, limit)
			}
			n := int64(len(h.events()))
			for _, after := range []int64{5, 3, n / 2, n - 2, 0} { // also backwards
				wantEvents(t, s, h, after, 10)
			}
			tail, err := s.EventTail(t.Context(), address())
			if err != nil || tail.Next != n-1 || !tail.UpToDate || string(tail.JSON) != "[]" || tail.Through != h.head() {
				t.Errorf("tail is %+v, %v", tail, err)
			}
			if page := readEvents(t, s, n+7, 10); page.Next != n+7 || !page.UpToDate || string(page.JSON) != "[]" {
				t.Errorf("beyond the end: %+v", page)
			}
		})
	}
}

// covers: beta/7
func TestEventsOfTheAbsent(t *testing.T) {
	s := start(t, newBucket(), nil)
	_, err := s.Events(t.Context(), address(), -1, 10)
	wantCode(t, "events", err, conversation.CodeStreamNotFound)
	_, err = s.EventTail(t.Context(), address())
	wantCode(t, "tail", err, conversation.CodeStreamNotFound)
}

// covers: beta/26
func TestEventsOfANewIncarnation(t *testing.T) {
	h := turns(t, 2)
	before := int64(len(h.events()))
	h.add(&conversation.ConversationDeleted{})
	h.turn(7)
	s := start(t, newBucket(h.pushes...), nil)
	all := h.events()
	page := readEvents(t, s, -1, 3)
	want := append(append([]byte{'['}, bytes.Join(all[before:before+3], []byte{','})...), ']')
	if page.Next != before+2 || !bytes.Equal(page.JSON, want) {
		t.Errorf("from the start: %d, %s", page.Next, page.JSON)
	}
}

// marked returns a checkpoint of the history at a batch, with its marks.
func (h *history) marked(at int) *storage.Checkpoint {
	h.t.Helper()
	state, p := conversation.NewState(), new(feed.Projector)
	var marks feed.Marks
	for i, b := range h.pushes[:at+1] {
		if err := errors.Join(state.Apply(conversation.Batch{Offset: conversation.Offset(i), Records: b.records}), p.Apply(b.records, nil)); err != nil {
			h.t.Fatal(err)
		}
		marks.Note(int64(i), p)
	}
	encoded, err := conversation.EncodeState(state)
	if err != nil {
		h.t.Fatal(err)
	}
	c := &storage.Checkpoint{At: h.pushes[at].at, State: encoded}
	if c.Events, err = marks.Encode(); err != nil {
		h.t.Fatal(err)
	}
	return c
}

type ranged struct {
	*bucket
	read func(first, last int64)
}

func (r ranged) Range(ctx context.Context, conv conversation.Key, first, last int64) ([]storage.Batch, error) {
	r.read(first, last)
	return r.bucket.Range(ctx, conv, first, last)
}

// TestEventsOfALongStream: reading the tail or a page in the middle does not read the other batches.
// covers: beta/87, beta/88, beta/91
func TestEventsOfALongStream(t *testing.T) {
	h := turns(t, 600)
	all := h.events()
	n := int64(len(all))
	source := newBucket(h.pushes...)
	source.newest = h.marked(len(h.pushes) - 3)
	ranges := 0
	s := start(t, ranged{source, func(first, last int64) { ranges += int(last - first + 1) }}, &follower.Options{RetainBytes: 100 << 10})
	few := len(h.pushes) / 10
	for _, after := range []int64{n - 101, n / 2, n / 5} {
		ranges = 0
		page := readEvents(t, s, after, 100)
		want := append(append([]byte{'['}, bytes.Join(all[after+1:after+101], []byte{','})...), ']')
		if page.Next != after+100 || !bytes.Equal(page.JSON, want) {
			t.Errorf("events after %d of %d: %d, %.200s", after, n, page.Next, page.JSON)
		}
		if ranges > few {
			t.Errorf("read after event %d of %d read %d of %d batches", after, n, ranges, len(h.pushes))
		}
	}
	// A reader that walks on projects no event twice.
	ranges = 0
	for after := n / 5; after < n/2; {
		after = readEvents(t, s, after, 100).Next
	}
	if most := len(h.pushes)/3 + 600; ranges > most {
		t.Errorf("walk over a third of the events read %d of %d batches", ranges, len(h.pushes))
	}
	// Without marks the stream is projected from the log.
	source.newest.Events = nil
	bare := start(t, source, &follower.Options{RetainBytes: 100 << 10})
	if page := readEvents(t, bare, n-101, 100); page.Next != n-1 {
		t.Errorf("page without marks: next %d", page.Next)
	}
	source.newest.Events = []byte(`{"v":1,"gap":64,"marks":[{"seq":5,"next":9,"state":{"next":1}}]}`)
	broken := start(t, source, nil)
	if page := readEvents(t, broken, n-101, 100); page.Next != n-1 {
		t.Errorf("page with a wrong mark: next %d", page.Next)
	}
}

// covers: beta/25
func TestEventsOfANewerVersion(t *testing.T) {
	h := newHistory(t)
	created := h.created(1)
	created.Stream = feed.Version + 1
	h.add(created, admitted("sub_1", 1))
	s := start(t, newBucket(h.pushes...), nil)
	_, err := s.Events(t.Context(), address(), -1, 10)
	wantCode(t, "events", err, conversation.CodeUnavailable)
	wantHead(t, s, 0)
}

// covers: beta/89
func TestManyReadersShareOneStream(t *testing.T) {
	h := turns(t, 30)
	source := newBucket(h.pushes...)
	s := start(t, source, nil)
	wantHead(t, s, h.head())
	_, before := source.counts()
	var wg sync.WaitGroup
	pages := make([]string, 20)
	for i := range pages {
		wg.Go(func() {
			page, err := s.Events(t.Context(), address(), 10, 50)
			pages[i] = fmt.Sprint(string(page.JSON), err)
		})
	}
	wg.Wait()
	for _, p := range pages {
		if p != pages[0] {
			t.Fatalf("pages of two readers differ: %.200s and %.200s", pages[0], p)
		}
	}
	if _, after := source.counts(); after-before > 2 {
		t.Errorf("%d reads", after-before)
	}
}

// TestEventsOfARun: the event that ends the run closes the stream, also for pages and from a mark.
// covers: beta/109
func TestEventsOfARun(t *testing.T) {
	h := newHistory(t)
	created := h.created(1)
	created.Agent = conversation.WorkflowAgent("report")
	begun := admitted("sub_1", 1)
	begun.Delivery.Body = `{"day":1}`
	h.add(created, begun, &conversation.RunStarted{Must: true, Submission: "sub_1", At: 1}, &conversation.AttemptStarted{Submission: "sub_1", Attempt: 1, Writer: "w"})
	h.add(&conversation.ResponseStarted{Message: "msg_1", Submission: "sub_1", Turn: "turn_1"})
	h.add(&conversation.ToolCalled{Message: "msg_1", Call: "call_1", Name: "report", Durable: true}, &conversation.StepCompleted{Message: "msg_1", Turn: "turn_1", StopReason: "tool_use"})
	for n := range 300 {
		h.add(&conversation.StepRecorded{Call: "call_1", Name: fmt.Sprint("step ", n), Output: []byte("1")})
	}
	source := newBucket(h.pushes...)
	s := start(t, source, &follower.Options{RetainBytes: 1000})
	if tail, err := s.EventTail(t.Context(), address()); err != nil || tail.Closed || tail.Next != 300 {
		t.Errorf("tail of a running run: %+v, %v", tail, err)
	}
	before := s
	end := h.add(&conversation.ToolSettled{Call: "call_1", Output: []byte("2")}, &conversation.SubmissionSettled{Submission: "sub_1", Outcome: conversation.OutcomeCompleted})
	source.store(end)
	offer(s, end)
	source = newBucket(h.pushes...)
	source.newest = h.marked(len(h.pushes) - 1)
	for name, s := range map[string]*follower.Set{"an open follower": before, "a new follower": start(t, newBucket(h.pushes...), nil), "a mark": start(t, source, nil)} {
		wantEvents(t, s, h, 290, 4)
		page := readEvents(t, s, 100, 1)
		tail, err := s.EventTail(t.Context(), address())
		if err != nil || !tail.Closed || !page.Closed || page.UpToDate || tail.Next != 301 {
			t.Errorf("%s: %+v, %+v, %v", name, page, tail, err)
		}
	}
}
