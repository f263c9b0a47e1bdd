package export_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/export"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

func TestOptionsAreChecked(t *testing.T) {
	b := memory(t)
	for name, o := range map[string]*export.Options{
		"none":       nil,
		"no member":  {Sinks: []observability.Sink{newSink(t, "a")}, Project: project},
		"no sink":    {Member: "m", Project: project},
		"nil sink":   {Member: "m", Project: project, Sinks: []observability.Sink{nil}},
		"no project": {Member: "m", Sinks: []observability.Sink{newSink(t, "a")}},
	} {
		if _, err := export.New(storage.NewLogs(b, nil), b, o); err == nil {
			t.Errorf("%s: New succeeded, want an error", name)
		}
	}
}

// TestOfferedIsShipped: the cursor follows the sink, also over batches without events, and a healthy
// sink causes no journal write.
func TestOfferedIsShipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, memory(t), export.Options{}, newSink(t, "a"))
		l := newLogbook(t, r.logs, "x")
		r.Open(l.key, observability.Source{}, -1, -1)
		if !r.MayLeave(l.key) {
			t.Error("conversation without a batch may not leave")
		}
		offer(r, l, 9)
		if seq, ok := r.Cursor(l.key); seq != -1 || !ok {
			t.Errorf("cursor is %d, %v before the first group, want -1", seq, ok)
		}
		if r.MayLeave(l.key) {
			t.Error("conversation may leave before it is shipped")
		}
		time.Sleep(2 * second)
		select {
		case <-r.Moved():
		default:
			t.Error("no signal of Moved")
		}
		if !r.MayLeave(l.key) {
			t.Error("shipped conversation may not leave")
		}
		if seq, ok := r.Cursor(l.key); seq != 8 || !ok {
			t.Errorf("cursor is %d, %v, want the last batch", seq, ok)
		}
		got, writes, _ := r.sinks[0].got()
		if diff := cmp.Diff(l.events(), got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if !slices.Equal(writes, []int{len(got)}) {
			t.Errorf("unexpected groups: %d", writes)
		}
		time.Sleep(30 * second)
		if s := r.Status(); s.Journals != 0 || s.Waiting != 0 || s.Bytes != 0 || s.Shipped != int64(len(got)) || s.Lag != 0 {
			t.Errorf("unexpected status: %+v", s)
		}
		r.Closed(l.key)
		if _, ok := r.Cursor(l.key); ok || r.Status().Conversations != 0 {
			t.Error("shipped conversation is still kept")
		}
	})
}

func offer(r *rig, l *logbook, n int) {
	for range n {
		src, b := l.append()
		r.Offer(l.key, src, b, nil)
	}
}

// TestExportedInTimeIsNeverListed: conversations exported within JournalEvery are never listed, under
// any load.
func TestExportedInTimeIsNeverListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		a.outcome = func() (error, bool) { // others arrive concurrently
			time.Sleep(300 * time.Millisecond)
			return nil, false
		}
		r := newRig(t, memory(t), export.Options{}, a)
		var books []*logbook
		for i := range 1000 { // so that no shard is ever empty
			l := newLogbook(t, r.logs, fmt.Sprint("x", i))
			books = append(books, l)
			r.Open(l.key, observability.Source{}, -1, -1)
			offer(r, l, 1)
			if r.MayLeave(l.key) {
				t.Fatalf("conversation %d may leave before it is exported", i)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if s := r.Status(); s.Journals != 0 {
			t.Errorf("%d journals written, want 0", s.Journals)
		}
		a.set(func() { a.outcome = away })
		for range 20 {
			offer(r, books[0], 1)
			r.MayLeave(books[0].key)
			time.Sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		if _, ok := journals(t, r.bucket)["me"][books[0].key]; !ok {
			t.Error("waiting conversation is not listed")
		}
	})
}

// TestOldestIsListedInTime, regardless of other conversations in its shard.
func TestOldestIsListedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		a.outcome = away
		r := newRig(t, memory(t), export.Options{}, a)
		oldest := newLogbook(t, r.logs, "oldest")
		list := func(l *logbook) {
			r.Open(l.key, observability.Source{}, -1, -1)
			offer(r, l, 1)
			r.MayLeave(l.key)
		}
		list(oldest)
		for i, began := 0, time.Now(); time.Since(began) < 7*second; i++ {
			if l := newLogbook(t, r.logs, fmt.Sprint("x", i)); storage.ExportShard(l.key) == storage.ExportShard(oldest.key) {
				list(l)
				time.Sleep(500 * time.Millisecond)
			}
		}
		synctest.Wait()
		if _, ok := journals(t, r.bucket)["me"][oldest.key]; !ok {
			t.Error("oldest conversation is not listed")
		}
	})
}

// TestLiveEventsLeaveTogether: the live events of a second are one group.
func TestLiveEventsLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		r := newRig(t, memory(t), export.Options{}, a)
		for i := range 300 {
			e := observability.Source{}.Live(1, observability.Place{}, &observability.Log{Level: "info"})
			e.ID = fmt.Sprint("live/", i)
			r.Emit(e)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * second)
		if _, writes, _ := a.got(); len(writes) != 3 {
			t.Errorf("unexpected groups: %v", writes)
		}
	})
}

// TestGroups: a group is shipped at the limit of rows, bytes or time.
func TestGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		opts export.Options
		want []int // batch 0 has 4 events, 1 has 4, 2 has none, 3 and 4 have 4
		at   time.Duration
	}{
		"rows":  {export.Options{FlushRows: 8, FlushEvery: time.Hour}, []int{8, 8}, 0},
		"bytes": {export.Options{FlushBytes: 1, FlushEvery: time.Hour}, []int{4, 4, 4, 4}, 0},
		"time":  {export.Options{FlushEvery: 3 * second}, []int{16}, 3 * second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, memory(t), tt.opts, newSink(t, "a"))
				l := newLogbook(t, r.logs, "x")
				r.Open(l.key, observability.Source{}, -1, -1)
				offer(r, l, 5)
				time.Sleep(tt.at - time.Millisecond)
				if synctest.Wait(); tt.at > 0 {
					if _, writes, _ := r.sinks[0].got(); len(writes) > 0 {
						t.Errorf("written too early: %d", writes)
					}
					time.Sleep(2 * time.Millisecond)
					synctest.Wait()
				}
				if _, writes, _ := r.sinks[0].got(); !slices.Equal(writes, tt.want) {
					t.Errorf("groups of %d, want %d", writes, tt.want)
				}
			})
		})
	}
}

// TestOneSinkAway: the other sinks are not called again, and no cursor moves without it.
func TestOneSinkAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSink(t, "a"), newSink(t, "b")
		b.outcome = away
		r := newRig(t, memory(t), export.Options{}, a, b)
		l := newLogbook(t, r.logs, "x")
		r.Open(l.key, observability.Source{}, -1, -1)
		offer(r, l, 3)
		time.Sleep(40 * second)
		if _, _, calls := a.got(); calls != 1 {
			t.Errorf("sink a was called %d times, want 1", calls)
		}
		if _, _, calls := b.got(); calls != 6 { // after 1, 2, 4, 8, 16 and 30 s
			t.Errorf("sink b was called %d times, want 6", calls)
		}
		s := r.Status()
		if seq, _ := r.Cursor(l.key); seq != -1 || s.Shipped != 0 || s.Lag < 39*second {
			t.Errorf("cursor %d, status %+v", seq, s)
		}
		if !s.Sinks[1].Failing || s.Sinks[1].Failures != 6 || s.Sinks[1].LastError != "away" || s.Sinks[0].Failing {
			t.Errorf("sinks: %+v", s.Sinks)
		}
		b.set(func() { b.outcome = nil })
		time.Sleep(31 * second)
		if seq, _ := r.Cursor(l.key); seq != 2 {
			t.Errorf("final cursor %d", seq)
		}
		if got, _, _ := b.got(); !cmp.Equal(got, l.events()) {
			t.Errorf("sink b has %d events, want all", len(got))
		}
	})
}

// TestLeavingConversationsAreListed: with a failing sink a conversation is listed before it may leave,
// others are not, and it is unlisted once it is exported.
func TestLeavingConversationsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		a.outcome = away
		b := memory(t)
		r := newRig(t, b, export.Options{}, a)
		l, stays := newLogbook(t, r.logs, "x"), newLogbook(t, r.logs, "y")
		for _, l := range []*logbook{l, stays} {
			r.Open(l.key, observability.Source{}, -1, -1)
			offer(r, l, 2)
		}
		if r.MayLeave(l.key) {
			t.Fatal("unlisted conversation may leave")
		}
		time.Sleep(4 * second)
		if len(journals(t, b)) != 0 || r.MayLeave(l.key) {
			t.Error("conversation listed before JournalEvery")
		}
		time.Sleep(1100 * time.Millisecond)
		select {
		case <-r.Moved():
		default:
			t.Error("no signal of Moved")
		}
		if !r.MayLeave(l.key) {
			t.Error("it may not leave though it isCovered in the journal")
		}
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"me": {l.key: -1}}, journals(t, b)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		offer(r, l, 1)
		if r.MayLeave(l.key) {
			t.Error("journal covers a later batch")
		}
		time.Sleep(6 * second)
		if !r.MayLeave(l.key) {
			t.Error("next journal does not cover the batch")
		}
		a.set(func() { a.outcome = nil })
		time.Sleep(40 * second)
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"me": {}}, journals(t, b)); diff != "" {
			t.Errorf("final journals (-want +got):\n%s", diff)
		}
		r.stop()
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{}, journals(t, b)); diff != "" {
			t.Errorf("journals after an orderly end (-want +got):\n%s", diff)
		}
	})
}

// TestEndListsAll: conversations that are not exported at the end are listed, and MayLeave is true for
// them.
func TestEndListsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		b := memory(t)
		r := newRig(t, b, export.Options{}, a)
		done, x, y := newLogbook(t, r.logs, "done"), newLogbook(t, r.logs, "x"), newLogbook(t, r.logs, "y")
		for _, l := range []*logbook{done, x, y} {
			r.Open(l.key, observability.Source{}, -1, -1)
		}
		offer(r, done, 2)
		offer(r, x, 1)
		time.Sleep(2 * second)
		a.set(func() { a.outcome = away })
		offer(r, x, 3)
		offer(r, y, 1)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 30*second {
			t.Errorf("Run took %v to end", took)
		}
		if diff := cmp.Diff(map[string]map[conversation.Key]int64{"me": {x.key: 0, y.key: -1}}, journals(t, b)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		for _, l := range []*logbook{done, x, y} {
			if !r.MayLeave(l.key) {
				t.Errorf("%s may not leave after the end", l.at.ID)
			}
		}
	})
}

// TestEndShips: waiting events are shipped at the end without waiting for more.
func TestEndShips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory(t)
		r := newRig(t, b, export.Options{FlushEvery: time.Hour, FlushRows: 5}, newSink(t, "a"))
		l := newLogbook(t, r.logs, "x")
		r.Open(l.key, observability.Source{}, -1, -1)
		offer(r, l, 1)
		r.stop()
		if got, _, _ := r.sinks[0].got(); !cmp.Equal(got, l.events()) {
			t.Errorf("sink has %d events, want all", len(got))
		}
		if refs := journals(t, b); len(refs) > 0 {
			t.Errorf("journals %v, want none", refs)
		}
	})
}

// TestEndRepeatsNothing: a sink that has the group does not get it again.
func TestEndRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSink(t, "a"), newSink(t, "b")
		b.outcome = away
		r := newRig(t, memory(t), export.Options{}, a, b)
		l := newLogbook(t, r.logs, "x")
		r.Open(l.key, observability.Source{}, -1, -1)
		offer(r, l, 2)
		time.Sleep(5 * second)
		r.stop()
		if _, _, calls := a.got(); calls != 1 {
			t.Errorf("sink a was called %d times, want 1", calls)
		}
	})
}

// TestHangingSink: a hanging sink delays neither Offer nor the end.
func TestHangingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		a.hang = true
		r := newRig(t, memory(t), export.Options{}, a)
		l := newLogbook(t, r.logs, "x")
		r.Open(l.key, observability.Source{}, -1, -1)
		offer(r, l, 3)
		r.Emit(live(1))
		time.Sleep(2 * time.Minute)
		began := time.Now()
		r.stop()
		if took := time.Since(began); took > 30*second {
			t.Errorf("Run took %v to end", took)
		}
		if c := r.Status().Sinks[0].Live; c.Emitted != 1 || c.Stored != 0 || c.Dropped != 1 {
			t.Errorf("unexpected live counts: %+v", c)
		}
	})
}

// TestPanicOfASink: a panic, or runtime.Goexit, of a sink is an ordinary failure.
func TestPanicOfASink(t *testing.T) {
	for want, fails := range map[string]func(){
		"broken": func() { panic("broken") }, "ended its goroutine": runtime.Goexit,
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newSink(t, "a")
			times := 0
			a.outcome = func() (error, bool) {
				if times++; times < 3 {
					fails()
				}
				return nil, false
			}
			r := newRig(t, memory(t), export.Options{}, a)
			l := newLogbook(t, r.logs, "x")
			r.Open(l.key, observability.Source{}, -1, -1)
			offer(r, l, 1)
			time.Sleep(10 * second)
			if seq, _ := r.Cursor(l.key); seq != 0 {
				t.Errorf("%s: cursor %d", want, seq)
			}
			if s := r.Status().Sinks[0]; !strings.Contains(s.LastError, want) || s.Failures != 2 {
				t.Errorf("%s: status %+v", want, s)
			}
		})
	}
}

// TestRejected: permanently refused events delay nothing and are counted by reason. A temporary
// refusal is a failure, and counted by reason as well.
func TestRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		again := true
		a.outcome = func() (error, bool) {
			defer func() { again = false }()
			return &observability.RejectedError{Events: map[string]int{"too_large": 1}, Again: again, Err: errAway}, false
		}
		r := newRig(t, memory(t), export.Options{}, a)
		l := newLogbook(t, r.logs, "x")
		r.Open(l.key, observability.Source{}, -1, -1)
		offer(r, l, 1)
		time.Sleep(10 * second)
		seq, _ := r.Cursor(l.key)
		s := r.Status().Sinks[0]
		if seq != 0 || s.Rejected["too_large"] != 2 || s.Failures != 1 || s.Failing {
			t.Errorf("got cursor %d and status %+v; want 0, 2 too_large, 1 failure", seq, s)
		}
		if shipped := r.Status().Shipped; s.Stored != shipped-1 {
			t.Errorf("got %d stored of %d, want one less", s.Stored, shipped)
		}
		r.Emit(live(1), live(2))
		time.Sleep(10 * second)
		if c := r.Status().Sinks[0].Live; c.Stored != 1 || c.Rejected["too_large"] != 1 || c.Dropped != 0 || c.Failures != 0 || c.Waiting != 0 {
			t.Errorf("got live events %+v, want 1 stored and 1 rejected", c)
		}
	})
}

func live(n int) observability.Event {
	return observability.Event{
		Envelope: observability.Envelope{Version: observability.Version, ID: fmt.Sprint("live/", n), Seq: observability.LiveSeq, Type: observability.TypeLog},
		Payload:  &observability.Log{Level: "info", Message: "text"},
	}
}

// TestLiveIsAccounted: emitted = stored + dropped, over full queues, failed writes and the end. A
// failing sink does not affect the other.
func TestLiveIsAccounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newSink(t, "a"), newSink(t, "b")
		n := 0
		b.outcome = func() (error, bool) {
			if n++; n%4 != 0 {
				return errAway, n%2 == 0
			}
			return nil, false
		}
		r := newRig(t, memory(t), export.Options{LiveEvents: 50}, a, b)
		for i := range 400 {
			r.Emit(live(2*i), live(2*i+1))
			time.Sleep(10 * time.Millisecond)
		}
		b.set(func() { b.outcome = away })
		r.Emit(live(800))
		r.stop()
		r.Emit(live(801))
		for i, s := range r.Status().Sinks {
			c := s.Live
			if c.Emitted != 802 || c.Waiting != 0 || c.Stored+c.Dropped != c.Emitted {
				t.Errorf("sink %s: %+v", s.Name, c)
			}
			stored, _, _ := r.sinks[i].got()
			if int64(len(stored)) < c.Stored || s.Name == "a" && int64(len(stored)) != c.Stored {
				t.Errorf("sink %s counts %d stored, has %d", s.Name, c.Stored, len(stored))
			}
			if s.Name == "a" && c.Dropped != 1 || s.Name == "b" && (c.Dropped < 2 || c.Stored == 0) {
				t.Errorf("sink %s: %+v", s.Name, c)
			}
		}
	})
}

// TestDroppedOnlyWhenShipped: events waiting here may have been shipped by another node, as a
// checkpoint then shows. Shipping them here too must not hide events since the conversation was
// reopened.
func TestDroppedOnlyWhenShipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSink(t, "a")
		a.outcome = away
		r := newRig(t, memory(t), export.Options{FlushRows: 1, JournalEvery: time.Hour}, a)
		l := newLogbook(t, r.logs, "x")
		r.Open(l.key, observability.Source{}, -1, -1)
		offer(r, l, 2) // one group each
		r.Closed(l.key)
		r.Open(l.key, l.src, 1, 1)
		r.Closed(l.key)
		r.Open(l.key, l.src, 1, 1)
		offer(r, l, 2)
		a.set(func() {
			writes := 0
			a.outcome = func() (error, bool) {
				if writes++; writes > 2 {
					return errAway, false
				}
				return nil, false
			}
		})
		time.Sleep(time.Minute)
		if got, _, _ := a.got(); len(got) != len(l.events())-4 {
			t.Fatalf("%d of %d events stored", len(got), len(l.events()))
		}
		if seq, ok := r.Cursor(l.key); seq != 2 || !ok {
			t.Errorf("cursor is %d, %v, want the last batch", seq, ok)
		}
		if r.MayLeave(l.key) {
			t.Error("conversation may leave before all events are shipped")
		}
		r.Closed(l.key)
		a.set(func() { a.outcome = nil })
		time.Sleep(time.Minute)
		if got, _, _ := a.got(); !cmp.Equal(l.events(), got) || r.Status().Conversations != 0 {
			t.Errorf("%d events stored, want all; status %+v", len(got), r.Status())
		}
	})
}
