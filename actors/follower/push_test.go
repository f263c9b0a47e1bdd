package follower_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/follower"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

func (p push) stored() storage.Batch {
	return storage.Batch{Header: storage.Header{Seq: p.at.Seq, Prev: p.prev}, Lines: p.lines, Hash: p.at.Hash}
}

func wantLoads(t testing.TB, source *bucket, want int) {
	t.Helper()
	synctest.Wait()
	if loads, _ := source.counts(); loads != want {
		t.Fatalf("%d loads, want %d", loads, want)
	}
}

// TestLostPushesHeal: a batch whose push was lost reaches a waiting reader once Behind or Recheck
// reports it, without needless bucket reads.
func TestLostPushesHeal(t *testing.T) {
	key := address().Key()
	for _, tt := range []struct {
		name   string
		stored int // batches in the bucket at the report; 3 are known
		report func(s *follower.Set, h *history)
		loads  int // in addition to the load that opened
		gaps   int64
	}{
		{"no report", 6, func(*follower.Set, *history) {}, 0, 0},
		{"behind", 6, func(s *follower.Set, _ *history) { s.Behind(key, 5) }, 1, 1},
		{"behind, and more is there", 6, func(s *follower.Set, _ *history) { s.Behind(key, 3) }, 1, 1},
		{"not behind", 6, func(s *follower.Set, _ *history) { s.Behind(key, 2); s.Behind(key, -1) }, 0, 0},
		{"a batch that the bucket lacks", 3, func(s *follower.Set, _ *history) { s.Behind(key, 9) }, 1, 1},
		{"recheck", 6, func(s *follower.Set, _ *history) { s.Recheck(key) }, 1, 0},
		{"recheck in vain", 3, func(s *follower.Set, _ *history) { s.Recheck(key) }, 1, 0},
		{"a gap", 6, func(s *follower.Set, h *history) { s.OfferStored(key, h.pushes[5].stored()) }, 1, 1},
		{"of another conversation", 6, func(s *follower.Set, h *history) {
			other := conversation.Address{Agent: "triage", ID: "43"}.Key()
			s.Behind(other, 5)
			s.Recheck(other)
			s.OfferStored(other, h.pushes[5].stored())
		}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := turns(t, 1)
				source := newBucket(h.pushes[:3]...)
				s := start(t, source, &follower.Options{Tip: noIdea})
				wantHead(t, s, 2)
				ctx, cancel := context.WithTimeout(conversation.Tailing(t.Context()), time.Minute)
				defer cancel()
				done := wait(ctx, s, 2)
				pending(t, done)
				source.store(h.pushes[3:tt.stored]...)
				tt.report(s, h)
				wantLoads(t, source, 1+tt.loads)
				if err := <-done; (err == nil) != (tt.stored > 3 && tt.loads > 0) {
					t.Errorf("wait: %v", err)
				}
				if n := s.Stats().Gaps; n != tt.gaps {
					t.Errorf("%d gaps, want %d", n, tt.gaps)
				}
				if n := s.Stats().Followers; n != 1 {
					t.Errorf("%d followers, want 1", n)
				}
			})
		})
	}
}

// TestReportDuringALoad: a load that has already listed the log misses the reported batch, so another
// load follows.
func TestReportDuringALoad(t *testing.T) {
	key := address().Key()
	for _, tt := range []struct {
		name  string
		seqs  []int64 // reported by Behind; a recheck if empty
		loads int
	}{
		{"behind", []int64{3, 5, 1}, 2},
		{"a batch that the load has found", []int64{2}, 1},
		{"a batch that no log has", []int64{99}, 2},
		{"recheck", nil, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, g := turns(t, 1), newGates()
				source := newBucket(h.pushes[:3]...)
				source.hook(g.pass)
				s := start(t, source, &follower.Options{Tip: noIdea})
				done := wait(conversation.Tailing(t.Context()), s, 2)
				pending(t, done)
				source.hook(nil)
				source.store(h.pushes[3:6]...)
				for _, seq := range tt.seqs {
					s.Behind(key, seq)
				}
				if tt.seqs == nil {
					s.Recheck(key)
					s.Recheck(key)
				}
				g.open <- struct{}{}
				wantLoads(t, source, tt.loads)
				if tt.loads == 1 {
					s.Recheck(key) // to end it
				}
				if err := <-done; err != nil {
					t.Errorf("wait: %v", err)
				}
				wantAll(t, s, h.upTo(5), 2)
			})
		})
	}
}

// TestFalseReportsEnd: reports of batches that do not exist do not cause endless reads.
func TestFalseReportsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		source := newBucket(h.pushes...)
		s := start(t, source, &follower.Options{Tip: noIdea})
		source.hook(func(context.Context) { s.Behind(address().Key(), 99) }) // at every load
		ctx, cancel := context.WithCancel(conversation.Tailing(t.Context()))
		done := wait(ctx, s, h.head())
		pending(t, done)
		wantLoads(t, source, 3) // the load that opened, and two for the report
		s.Behind(address().Key(), 99)
		pending(t, done)
		wantLoads(t, source, 5)
		cancel()
		<-done
	})
}

// TestReportWithoutReaders: a report for a conversation without readers is deferred to its next read.
func TestReportWithoutReaders(t *testing.T) {
	key := address().Key()
	for name, report := range map[string]func(*follower.Set){
		"behind":  func(s *follower.Set) { s.Behind(key, 3); s.Behind(key, 5) },
		"recheck": func(s *follower.Set) { s.Recheck(key) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := turns(t, 1)
				source := newBucket(h.pushes[:3]...)
				s := start(t, source, &follower.Options{Tip: noIdea})
				report(s) // no follower
				wantLoads(t, source, 0)
				wantHead(t, s, 2)
				synctest.Wait() // the load has ended and released the follower
				source.store(h.pushes[3:6]...)
				report(s)
				wantLoads(t, source, 1)
				head, err := s.Head(conversation.Tailing(t.Context()), address())
				if err != nil || head != 5 {
					t.Errorf("tailing read: head %d, %v, want 5", head, err)
				}
				wantLoads(t, source, 2)
				report(s)
				done := wait(conversation.Tailing(t.Context()), s, 5)
				source.store(h.pushes[6])
				offer(s, h.pushes[6])
				if err := <-done; err != nil {
					t.Errorf("wait: %v", err)
				}
			})
		})
	}
}

// TestWaitEndsWhenARecheckFails: pushes may be lost and the bucket does not answer, so waiters must
// retry.
func TestWaitEndsWhenARecheckFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := turns(t, 1)
		source := newBucket(h.pushes[:3]...)
		s := start(t, source, &follower.Options{Tip: noIdea})
		done := wait(conversation.Tailing(t.Context()), s, 2)
		pending(t, done)
		source.fail(&storage.Error{Op: "list", Kind: storage.ErrUnavailable})
		s.Recheck(address().Key())
		wantCode(t, "wait", <-done, conversation.CodeUnavailable)
		source.fail(nil)
		source.store(h.pushes[3:]...)
		if err := s.Wait(conversation.Tailing(t.Context()), address(), 2); err != nil {
			t.Errorf("later wait: %v", err)
		}
	})
}

func TestStoredPushes(t *testing.T) {
	key := address().Key()
	for _, retain := range []int{1 << 20, 600} {
		h := turns(t, 6)
		source := newBucket(h.pushes[0])
		s := start(t, source, &follower.Options{Tip: noIdea, RetainBytes: retain})
		wantHead(t, s, 0)
		for i, p := range h.pushes[1:] {
			source.store(p)
			s.OfferStored(key, p.stored())
			if i%7 == 0 {
				s.OfferStored(key, p.stored())
				s.Offer(key, p.at, p.prev, p.records, len(p.lines))
			}
		}
		ctx := conversation.Tailing(t.Context())
		if page, err := s.Updates(ctx, address(), h.head()-3, 1000); err != nil || string(page.JSON) != h.page(h.head()-3, page.Next) {
			t.Errorf("page is %s, %v", page.JSON, err)
		}
		if loads, _ := source.counts(); loads != 1 {
			t.Errorf("%d loads, want 1", loads)
		}
		wantAll(t, s, h, 3)
	}
}

func TestPushThatCannotBeDecoded(t *testing.T) {
	for _, lines := range []string{"{\n", `{"type":"poll_opened","must":true}` + "\n"} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			h := turns(t, 1)
			source := newBucket(h.pushes[:3]...)
			s := start(t, source, &follower.Options{
				Tip: noIdea, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			wantHead(t, s, 2)
			source.store(h.pushes[3:5]...)
			bad := h.pushes[3].stored()
			bad.Lines = []byte(lines)
			s.OfferStored(address().Key(), bad)
			s.OfferStored(address().Key(), h.pushes[4].stored())
			ctx := conversation.Tailing(t.Context())
			page, err := s.Updates(ctx, address(), 0, 1000)
			if err != nil || string(page.JSON) != h.page(0, 4) {
				t.Errorf("page is %s, %v", page.JSON, err)
			}
			if n := strings.Count(log.String(), "decode push failed"); n != 1 || s.Stats().Undecoded != 1 {
				t.Errorf("counted %d and logged %d times, want 1:\n%s", s.Stats().Undecoded, n, log.String())
			}
			wantAll(t, s, h.upTo(4), 2)
		})
	}
}

func TestStoredPushesAreBounded(t *testing.T) {
	h := newHistory(t)
	h.turn(0)
	known := len(h.pushes)
	for i := range 20 {
		long := admitted(conversation.SubmissionID(fmt.Sprint("long_", i)), 100+i)
		long.Delivery.Body = strings.Repeat("x", 1<<20)
		h.add(long)
	}
	for _, during := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGates()
			source := newBucket(h.pushes[:known]...)
			s := start(t, source, &follower.Options{Tip: noIdea})
			if during {
				source.hook(g.pass)
				go func() { _, _ = s.Head(t.Context(), address()) }()
				synctest.Wait()
				source.hook(nil)
			} else {
				wantHead(t, s, conversation.Offset(known-1))
			}
			source.store(h.pushes[known:]...)
			for _, p := range h.pushes[known:] {
				s.OfferStored(address().Key(), p.stored())
			}
			if during {
				g.open <- struct{}{}
			}
			wantLoads(t, source, 2)
			head, err := s.Head(conversation.Tailing(t.Context()), address())
			if err != nil || head != h.head() {
				t.Errorf("head is %d, %v", head, err)
			}
		})
	}
}

// TestKeptPushesAreBounded covers pushes that wait for the end of a load.
func TestKeptPushesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, g := newHistory(t), newGates()
		h.turn(0)
		source := newBucket(h.pushes...)
		source.hook(g.pass)
		s := start(t, source, &follower.Options{Tip: noIdea})
		done := wait(t.Context(), s, 0)
		pending(t, done)
		var lines []weak.Pointer[[1 << 20]byte]
		for i := range 20 {
			line := new([1 << 20]byte)
			lines = append(lines, weak.Make(line))
			b := h.pushes[0].stored()
			b.Seq, b.Lines = int64(100+i), line[:]
			s.OfferStored(address().Key(), b)
			s.OfferStored(address().Key(), b) // duplicates count once
		}
		runtime.GC()
		kept := 0
		for _, l := range lines {
			if l.Value() != nil {
				kept++
			}
		}
		if kept != 16 {
			t.Errorf("%d MiB kept, want 16", kept)
		}
		source.hook(nil)
		g.open <- struct{}{}
		if err := <-done; err != nil {
			t.Errorf("wait: %v", err)
		}
		wantAll(t, s, h, 3)
		synctest.Wait()
		loads, _ := source.counts()
		source.hook(g.pass) // the next load starts with no kept pushes
		done = wait(conversation.Tailing(t.Context()), s, h.head())
		pending(t, done)
		s.Recheck(address().Key())
		synctest.Wait()
		source.store(h.add())
		s.OfferStored(address().Key(), h.pushes[h.head()].stored())
		g.open <- struct{}{}
		if err := <-done; err != nil {
			t.Errorf("wait: %v", err)
		}
		source.hook(nil)
		wantLoads(t, source, loads+1)
	})
}

// TestCheckpointMeetsPushes: a batch pushed while a conversation is opened from its first checkpoint
// is either part of the checkpoint or follows it.
func TestCheckpointMeetsPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h, g := newHistory(t), newGates()
		source := newBucket()
		s := start(t, source, &follower.Options{Tip: noIdea, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		wantAbsent(t, s)
		loads, _ := source.counts()
		h.turn(0)
		state := conversation.NewState()
		for _, p := range h.pushes[:3] {
			if err := state.Apply(conversation.Batch{Offset: conversation.Offset(p.at.Seq), Records: p.records}); err != nil {
				t.Fatal(err)
			}
		}
		encoded, err := conversation.EncodeState(state)
		if err != nil {
			t.Fatal(err)
		}
		source.restoring(&storage.Checkpoint{At: h.pushes[2].at, State: encoded}, g.pass)
		read := make(chan error, 1)
		go func() {
			_, err := s.Snapshot(t.Context(), address())
			read <- err
		}()
		synctest.Wait()
		source.store(h.pushes...)
		for _, p := range h.pushes {
			s.OfferStored(address().Key(), p.stored())
		}
		g.open <- struct{}{}
		if err := <-read; err != nil {
			t.Errorf("read: %v", err)
		}
		wantLoads(t, source, loads+1)
		if log.Len() > 0 {
			t.Errorf("unexpected log: %s", log.String())
		}
		source.restoring(nil, nil)
		wantAll(t, s, h, 3)
	})
}

func TestOpenedAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(i int) conversation.Address { return conversation.Address{Agent: "triage", ID: fmt.Sprint(i)} }
		h := turns(t, 1)
		source := newBucket(h.pushes...) // the same log under every key
		var events []string
		record := func(sign string) func(conversation.Key) {
			return func(key conversation.Key) {
				for i := range 4 {
					if at(i).Key() == key {
						loads, _ := source.counts()
						events = append(events, fmt.Sprint(sign, i, " after ", loads))
					}
				}
			}
		}
		s := start(t, source, &follower.Options{
			MaxBytes: bytesOf(t, h, 2), IdleAfter: 10 * time.Second, Tip: reports(int64(h.head())),
			Opened: record("+"), Closed: record("-"),
		})
		followed := func(want ...conversation.Address) {
			t.Helper()
			got, all := map[conversation.Key]int64{}, map[conversation.Key]int64{}
			for key, seq := range s.Followed() {
				got[key] = seq
			}
			for _, a := range want {
				all[a.Key()] = int64(h.head())
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("followed (-want +got):\n%s", diff)
			}
		}
		for _, i := range []int{0, 0, 1, 2} {
			if _, err := s.Head(t.Context(), at(i)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		followed(at(1), at(2))
		for range s.Followed() {
			break
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		followed()
		want := []string{"+0 after 0", "+1 after 1", "-0 after 2", "+2 after 2", "-1 after 3", "-2 after 3"}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
