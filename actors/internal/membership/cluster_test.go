package membership_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

const latency = 20 * time.Millisecond

// wantReplaced checks that Run has ended because the newest epoch lacks the node.
func wantReplaced(t *testing.T, n *node) {
	t.Helper()
	var e *membership.ReplacedError
	if err := n.ended(); !errors.As(err, &e) || (storage.Epoch{Members: e.Members}).Has(n.id) {
		t.Errorf("%s ended with %v, want to be replaced", n.id, err)
	}
	if !n.Passive() || n.Fresh() {
		t.Errorf("%s is replaced: passive %v, fresh %v, want true, false", n.id, n.Passive(), n.Fresh())
	}
	if err := n.AwaitActive(t.Context()); !errors.As(err, &e) {
		t.Errorf("%s: AwaitActive: %v, want replaced", n.id, err)
	}
}

// TestJoinTogether: ten nodes that start at the same time over a slow bucket that loses responses all
// join.
func TestJoinTogether(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var nodes []*node
			var ids []string
			var wg sync.WaitGroup
			began := time.Now()
			for i := range 10 {
				n := w.peer(string(rune('a'+i)), storagetest.Plan{
					Seed: seed<<8 | uint64(i), Latency: latency,
					Match: func(op storagetest.Op) bool { return op.Method == "PUT" && strings.HasPrefix(op.Key, "members/") },
					Rates: map[storagetest.Kind]float64{storagetest.LostAck: .1, storagetest.ErrorAfter: .1, storagetest.Timeout: .1, storagetest.Delayed: .1},
				})
				nodes, ids = append(nodes, n), append(ids, n.id)
				wg.Go(func() { n.join().run() })
			}
			wg.Wait()
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("seed %d: took %v", seed, took)
			}
			time.Sleep(2 * suspect)
			slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.id, b.id) })
			e := w.newest()
			for _, id := range ids {
				if !e.Has(id) {
					t.Errorf("seed %d: %s is not in epoch %d", seed, id, e.N)
				}
			}
			for _, n := range nodes {
				if diff := cmp.Diff(membership.View{Epoch: e.N, Members: e.Members}, n.last().View); diff != "" {
					t.Errorf("seed %d: %s: view (-epoch +view):\n%s", seed, n.id, diff)
				}
				if n.Passive() || !n.Fresh() {
					t.Errorf("seed %d: %s is passive %v, fresh %v", seed, n.id, n.Passive(), n.Fresh())
				}
			}
		})
	}
}

// TestJoinTakesNoTime counts the requests of a join among live nodes.
func TestJoinTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(0, "a", "b")
		synctest.Wait()
		began := time.Now()
		c := w.peer("c", storagetest.Plan{}).join()
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		want := []string{"LIST members/", "GET " + storage.EpochKey(2), "PUT heartbeat/c", "PUT " + storage.EpochKey(3), "LIST members/"}
		if diff := cmp.Diff(want, c.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		c.run()
		time.Sleep(heartbeat)
		w.wantViews(append(values(peers), c), "a", "b", "c")
		h, err := storage.ReadHeartbeat(t.Context(), w.bucket, "c")
		if err != nil || h.Active != 7 || h.Busy != 3 {
			t.Errorf("heartbeat %+v, %v", h, err)
		}
		if diff := cmp.Diff([]string{"heartbeat/a", "heartbeat/b", "heartbeat/c", storage.EpochKey(3)}, w.keys()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

// TestCrashedMemberIsExpelled kills a node at every phase of its heartbeat.
func TestCrashedMemberIsExpelled(t *testing.T) {
	for phase := range 5 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			peers := w.peers(latency, "a", "b", "c", "d", "e", "f")
			time.Sleep(5*time.Second + time.Duration(phase)*heartbeat/5)
			c := peers["c"]
			c.kill()
			killed := time.Now()
			time.Sleep(suspect + 2*heartbeat)
			rest := values(peers, "c")
			w.wantViews(rest, "a", "b", "d", "e", "f")
			for _, n := range rest {
				if v := n.last(); v.at.Sub(c.lastBeat()) < suspect || v.at.Sub(killed) > suspect+2*heartbeat {
					t.Errorf("%s published it %v after the last heartbeat, %v after the kill", n.id, v.at.Sub(c.lastBeat()), v.at.Sub(killed))
				}
			}
			counts := map[string]int{}
			for _, n := range rest {
				counts[n.id] = strings.Count(n.logs.String(), "expelled silent members")
				for line := range strings.Lines(n.logs.String()) {
					if strings.Contains(line, "expelled silent members") && !strings.Contains(line, "c.example:") {
						t.Errorf("log line lacks the address of c: %s", line)
					}
				}
			}
			if counts["a"]+counts["b"]+counts["f"] != 1 || counts["d"]+counts["e"] != 0 {
				t.Errorf("expelled by %v, want by one of a, b, f", counts)
			}
			time.Sleep(time.Second)
			if keys := strings.Join(w.keys(), " "); strings.Contains(keys, "heartbeat/c") || strings.Count(keys, "members/") != 1 {
				t.Errorf("stored: %s", keys)
			}
		})
	}
}

// TestPausedMember freezes a node. For less than Suspect it stays a member. For more it is passive
// when it resumes, before its first request, and ends.
func TestPausedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(latency, "a", "b", "c")
		time.Sleep(5 * time.Second)
		b := peers["b"]
		goOn := b.freeze()
		time.Sleep(suspect - 2*heartbeat)
		goOn()
		time.Sleep(5 * time.Second)
		w.wantViews(values(peers), "a", "b", "c")
		if b.Passive() {
			t.Error("b is passive after a short pause")
		}
		goOn = b.freeze()
		time.Sleep(10 * time.Second)
		if !b.Passive() || b.Fresh() || b.Confirmed() < 9*time.Second {
			t.Errorf("b is passive %v, fresh %v, confirmed %v ago", b.Passive(), b.Fresh(), b.Confirmed())
		}
		goOn()
		wantReplaced(t, b)
		if err := b.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		w.wantViews(values(peers, "b"), "a", "c")
		again := w.peer("b2", storagetest.Plan{}).join().run()
		time.Sleep(heartbeat)
		w.wantViews([]*node{peers["a"], peers["c"], again}, "a", "c", "b2")
		if keys := strings.Join(w.keys(), " "); strings.Contains(keys, "heartbeat/b ") {
			t.Errorf("stored: %s", keys)
		}
	})
}

// stall is a bucket that some nodes cannot use for a time.
type stall struct {
	on     atomic.Bool
	writes bool // only writes fail
	kind   storagetest.Kind
	hangs  bool // requests hang until canceled
}

func (s *stall) hits(write bool) bool { return s.on.Load() && (write || !s.writes) }

func (s *stall) over(w *world, id string, seed uint64) *node {
	n := w.peer(id, storagetest.Plan{Seed: seed, Latency: latency, Decide: func(op storagetest.Op) storagetest.Kind {
		if !s.hangs && s.hits(op.Method == "PUT" || op.Method == "DELETE") {
			return s.kind
		}
		return storagetest.None
	}})
	n.hang = func(request string) bool {
		return s.hangs && s.hits(strings.HasPrefix(request, "PUT") || strings.HasPrefix(request, "DELETE"))
	}
	return n
}

func stalls() map[string]*stall {
	return map[string]*stall{
		"errors":                        {kind: storagetest.ErrorBefore},
		"time-outs":                     {kind: storagetest.Timeout},
		"no answers":                    {hangs: true},
		"errors to writes":              {writes: true, kind: storagetest.ErrorBefore},
		"no answers to writes":          {writes: true, hangs: true},
		"immediate write timeouts":      {writes: true, kind: storagetest.Timeout},
		"writes land without an answer": {writes: true, kind: storagetest.LostAck},
	}
}

// TestBucketStall stalls the bucket for all nodes: all become passive, none is expelled, and all
// resume.
func TestBucketStall(t *testing.T) {
	for name, s := range stalls() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var nodes []*node
				for i, id := range []string{"a", "b", "c", "d"} {
					nodes = append(nodes, s.over(w, id, uint64(i)).join().run())
					time.Sleep(heartbeat / 5)
				}
				time.Sleep(5 * time.Second)
				before := w.newest()
				s.on.Store(true)
				time.Sleep(suspect)
				var active sync.WaitGroup
				for _, n := range nodes {
					if !n.Passive() {
						t.Errorf("%s is not passive", n.id)
					}
					active.Go(func() {
						if err := n.AwaitActive(t.Context()); err != nil || n.Passive() || s.on.Load() {
							t.Errorf("%s: AwaitActive: %v, passive %v", n.id, err, n.Passive())
						}
					})
				}
				time.Sleep(8 * time.Second)
				s.on.Store(false)
				ended := time.Now()
				active.Wait()
				if took := time.Since(ended); took > 2*heartbeat+heartbeat {
					t.Errorf("active %v after the stall", took)
				}
				time.Sleep(10 * time.Second)
				if diff := cmp.Diff(before, w.newest()); diff != "" {
					t.Errorf("members changed (-before +after):\n%s", diff)
				}
				for _, n := range nodes {
					logs := n.logs.String()
					if n.Passive() || strings.Count(logs, "membership unconfirmed") != 1 || strings.Count(logs, "membership confirmed again") != 1 {
						t.Errorf("%s: passive %v, logs:\n%s", n.id, n.Passive(), logs)
					}
				}
			})
		})
	}
}

// TestShortStalls covers stalls of lengths around the membership's times.
func TestShortStalls(t *testing.T) {
	for name, s := range stalls() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for i, id := range []string{"a", "b", "c"} {
					s.over(w, id, uint64(i)).join().run()
					time.Sleep(heartbeat / 3)
				}
				time.Sleep(5 * time.Second)
				before := w.newest()
				for length := 300 * time.Millisecond; length < 4*time.Second; length += 290 * time.Millisecond {
					s.on.Store(true)
					time.Sleep(length)
					s.on.Store(false)
					time.Sleep(4*time.Second + length/7)
					if diff := cmp.Diff(before, w.newest()); diff != "" {
						t.Fatalf("a stall of %v changed the members (-before +after):\n%s", length, diff)
					}
				}
			})
		})
	}
}

// TestUnreachableForOne stalls the bucket, or its writes, for one node. Only that node is expelled,
// and it is passive before.
func TestUnreachableForOne(t *testing.T) {
	for name, s := range stalls() {
		if s.kind == storagetest.LostAck {
			continue // its heartbeats land
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				peers := w.peers(latency, "a", "b", "d")
				c := s.over(w, "c", 9).join().run()
				time.Sleep(5 * time.Second)
				s.on.Store(true)
				began := time.Now()
				for w.newest().Has("c") {
					if time.Since(began) > suspect+2*heartbeat {
						t.Fatal("c is not expelled")
					}
					time.Sleep(20 * time.Millisecond)
				}
				if !c.Passive() {
					t.Error("c was expelled but not passive before")
				}
				if !s.writes {
					time.Sleep(time.Minute)
					select {
					case err := <-c.done:
						t.Fatalf("c ended with %v, want replaced", err)
					default:
					}
				}
				s.on.Store(false)
				wantReplaced(t, c)
				time.Sleep(heartbeat)
				w.wantViews(values(peers), "a", "b", "d")
			})
		})
	}
}

// TestSameNodeAddress: a node at the node address of a crashed or live node joins immediately and
// replaces the older row.
func TestSameNodeAddress(t *testing.T) {
	for _, crashes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			peers := w.peers(0, "a", "b", "c")
			time.Sleep(5*time.Second + heartbeat/8)
			b := peers["b"]
			if crashes {
				b.kill()
			}
			began := time.Now()
			again := w.peer("b2", storagetest.Plan{}).join().run()
			if took := time.Since(began); took != 0 {
				t.Errorf("took %v", took)
			}
			if !crashes {
				wantReplaced(t, b)
				if err := b.Leave(t.Context()); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(heartbeat)
			w.wantViews([]*node{peers["a"], peers["c"], again}, "a", "c", "b2")
			if diff := cmp.Diff([]string{"heartbeat/a", "heartbeat/b2", "heartbeat/c", storage.EpochKey(4)}, w.keys()); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if logs := again.logs.String(); strings.Count(logs, "older incarnation") != 1 || !strings.Contains(logs, "member=b ") {
				t.Errorf("logs lack the replacement of b:\n%s", logs)
			}
		})
	}
}

// TestAloneAndShared combines nodes with and without a node address.
func TestAloneAndShared(t *testing.T) {
	for name, tt := range map[string]struct{ first, second bool }{ // with a node address
		"alone, then alone": {false, false}, "alone, then shared": {false, true}, "shared, then alone": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				kind := func(id string, shares bool) *node {
					if shares {
						return w.peer(id, storagetest.Plan{})
					}
					return w.node(id, nil)
				}
				a := kind("a", tt.first).join().run()
				time.Sleep(3 * time.Second)
				b := kind("b", tt.second)
				wantAlive(t, b.Join(t.Context()), "a")
				if got := strings.Join(b.requests(), " "); strings.Contains(got, "PUT") {
					t.Errorf("refused start sent %s", got)
				}
				a.kill()
				began := time.Now()
				b.join().run()
				if took := time.Since(began); took != suspect {
					t.Errorf("the start took %v, want %v", took, suspect)
				}
				synctest.Wait()
				w.wantViews([]*node{b}, "b")
				if diff := cmp.Diff([]string{"heartbeat/b", storage.EpochKey(2)}, w.keys()); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestDraining sets and clears the mark, from all nodes and commands concurrently.
func TestDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(latency, "a", "b", "c", "d")
		draining := func() (ids string) {
			for _, m := range w.newest().Members {
				if m.Draining {
					ids += m.ID
				}
			}
			return ids
		}
		for _, on := range []bool{true, false} {
			var wg sync.WaitGroup
			for _, n := range values(peers, "d") {
				wg.Go(func() {
					if err := n.SetDraining(t.Context(), on); err != nil {
						t.Errorf("%s: %v", n.id, err)
					}
				})
			}
			wg.Go(func() {
				v, err := membership.SetDraining(t.Context(), w.bucket, "d", on)
				if err != nil || len(v.Members) != 4 || v.Members[3].Draining != on {
					t.Errorf("%+v, %v", v, err)
				}
			})
			wg.Wait()
			if got, want := draining(), map[bool]string{true: "abcd"}[on]; got != want {
				t.Errorf("draining members %q, want %q", got, want)
			}
			before := w.newest()
			if err := peers["a"].SetDraining(t.Context(), on); err != nil {
				t.Error(err)
			}
			if v, err := membership.SetDraining(t.Context(), w.bucket, "b", on); err != nil || v.Epoch != before.N {
				t.Errorf("second call: %+v, %v", v, err)
			}
			if diff := cmp.Diff(before, w.newest()); diff != "" {
				t.Errorf("second call changed the bucket:\n%s", diff)
			}
			time.Sleep(heartbeat)
			w.wantViews(values(peers), "a", "b", "c", "d")
		}
		var gone *membership.AbsentError
		if _, err := membership.SetDraining(t.Context(), w.bucket, "x", true); !errors.As(err, &gone) || gone.Member != "x" {
			t.Errorf("unknown member: %v", err)
		}
		peers["a"].leave()
		var replaced *membership.ReplacedError
		if err := peers["a"].SetDraining(t.Context(), true); !errors.As(err, &replaced) {
			t.Errorf("member that left: %v", err)
		}
		if got := strings.Count(strings.Join(w.keys(), " "), "members/"); got != 1 {
			t.Errorf("%d epochs stored, want 1", got)
		}
	})
}

// TestLeaving ends all nodes in an orderly way, some concurrently.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(latency, "a", "b", "c", "d", "e")
		time.Sleep(3 * time.Second)
		left := time.Now()
		peers["b"].leave()
		if !peers["b"].Passive() || time.Since(left) > 8*latency {
			t.Errorf("Leave of b took %v; passive %v", time.Since(left), peers["b"].Passive())
		}
		time.Sleep(heartbeat)
		w.wantViews(values(peers, "b"), "a", "c", "d", "e")
		var wg sync.WaitGroup
		for _, n := range values(peers, "b", "e") {
			wg.Go(n.leave)
		}
		wg.Wait()
		time.Sleep(heartbeat)
		w.wantViews(values(peers, "a", "b", "c", "d"), "e")
		peers["e"].leave()
		if diff := cmp.Diff([]string{storage.EpochKey(w.newest().N)}, w.keys()); diff != "" {
			t.Errorf("leftovers (-want +got):\n%s", diff)
		}
		w.wantMembers()
	})
}

// TestFourNeighboursCrash kills a node together with all its observers.
func TestFourNeighboursCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(latency, "a", "b", "c", "d", "e", "f")
		time.Sleep(5 * time.Second)
		for _, id := range []string{"b", "c", "d", "e"} {
			peers[id].kill()
		}
		time.Sleep(2 * (suspect + 2*heartbeat))
		w.wantViews(values(peers, "b", "c", "d", "e"), "a", "f")
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"heartbeat/a", "heartbeat/f", storage.EpochKey(w.newest().N)}, w.keys()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

// TestConfirmed checks the time from which a confirmation counts.
func TestConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.peer("a", storagetest.Plan{})
		const slow = 100 * time.Millisecond
		a.slow = func(string) time.Duration { return slow }
		if !a.Passive() || a.Fresh() {
			t.Error("active before it has joined")
		}
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.AwaitActive(waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await before the join: %v", err)
		}
		a.join()
		if got := a.Confirmed(); got != 2*slow || a.Passive() || !a.Fresh() {
			t.Errorf("confirmed %v ago by the create of the epoch, want %v", got, 2*slow)
		}
		a.run()
		for range 20 { // A poll begins each 250 ms and shows the row 100 ms later.
			if got := a.Confirmed(); got < slow || got > heartbeat/2+slow {
				t.Errorf("confirmed %v ago", got)
			}
			time.Sleep(33 * time.Millisecond)
		}
		a.kill()
		confirmed := time.Now().Add(-a.Confirmed())
		time.Sleep(time.Until(confirmed.Add(heartbeat)))
		if !a.Fresh() {
			t.Error("not fresh within a heartbeat")
		}
		time.Sleep(time.Nanosecond)
		if a.Fresh() {
			t.Error("fresh after a heartbeat")
		}
		time.Sleep(fence)
		if !a.Passive() {
			t.Error("not passive after the fence")
		}
	})
}

// TestPassiveByEither lets only polls, or only heartbeats, of a node fail.
func TestPassiveByEither(t *testing.T) {
	for _, prefix := range []string{"PUT heartbeat/", "LIST members/"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a := w.peer("a", storagetest.Plan{})
			var off atomic.Bool
			a.hang = func(request string) bool { return off.Load() && strings.HasPrefix(request, prefix) }
			a.join().run()
			time.Sleep(3 * time.Second)
			off.Store(true)
			time.Sleep(fence - heartbeat)
			if a.Passive() {
				t.Errorf("%s: passive immediately", prefix)
			}
			time.Sleep(heartbeat + 1)
			if !a.Passive() {
				t.Errorf("%s: not passive", prefix)
			}
			off.Store(false)
			if err := a.AwaitActive(t.Context()); err != nil || a.Passive() {
				t.Errorf("%s: %v", prefix, err)
			}
		})
	}
}

// TestJoinIsBounded: a node that loses every race ends with its context and leaves nothing.
func TestJoinIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.peers(0, "a")
		n := 0
		z := w.peer("z", storagetest.Plan{Decide: func(op storagetest.Op) storagetest.Kind {
			if op.Method == "PUT" && strings.HasPrefix(op.Key, "members/") {
				n++
				if _, err := membership.SetDraining(t.Context(), w.bucket, "a", n%2 == 1); err != nil {
					t.Error(err)
				}
			}
			return storagetest.None
		}})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := z.Join(ctx); !errors.Is(err, context.DeadlineExceeded) || n < 20 {
			t.Errorf("error after %d races: %v", n, err)
		}
		if keys := fmt.Sprint(w.keys()); strings.Contains(keys, "heartbeat/z") || w.newest().Has("z") {
			t.Errorf("leftovers: %s", keys)
		}
	})
}

// TestLeaveWithoutTheDeletes: a node has left when its row is removed. Failed deletes of other objects
// are no error.
func TestLeaveWithoutTheDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.peer("a", storagetest.Plan{}).join()
		b := w.peer("b", storagetest.Plan{
			Match: func(op storagetest.Op) bool { return op.Method == "DELETE" },
			Rates: map[storagetest.Kind]float64{storagetest.ErrorBefore: 1},
		}).join()
		if err := b.Leave(t.Context()); err != nil {
			t.Errorf("leave while no object is deleted: got %v, want nil", err)
		}
		epoch, _, err := storage.NewestEpoch(t.Context(), w.bucket, 0)
		if err != nil || len(epoch.Members) != 1 {
			t.Errorf("got members %v, %v, want a alone", epoch.Members, err)
		}
	})
}
