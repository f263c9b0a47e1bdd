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
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// TestCost counts every request from Join to Leave.
func TestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began := time.Now()
		want := func(n *node, phase string, want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, n.requests()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", phase, diff)
			}
		}
		epoch := storage.EpochKey
		a := w.node("a", nil).join()
		want(a, "start on an empty bucket", "LIST members/", "LIST heartbeat/", "PUT heartbeat/a", "PUT "+epoch(1), "LIST members/")
		a.run()
		want(a, "nothing to tidy")
		if time.Since(began) != 0 {
			t.Errorf("start took %v", time.Since(began))
		}
		time.Sleep(2*time.Second + heartbeat/4)
		sent := a.requests()
		slices.Sort(sent) // Every second poll coincides with a heartbeat.
		if diff := cmp.Diff(slices.Concat(slices.Repeat([]string{"LIST members/"}, 8), slices.Repeat([]string{"PUT heartbeat/a"}, 4)), sent); diff != "" {
			t.Errorf("4 heartbeats and 8 polls (-want +got):\n%s", diff)
		}
		a.leave()
		want(a, "an orderly end", "LIST members/", "GET "+epoch(1), "PUT "+epoch(2), "LIST members/", "DELETE "+epoch(1), "DELETE heartbeat/a")
		if diff := cmp.Diff([]string{epoch(2)}, w.keys()); diff != "" {
			t.Errorf("leftovers (-want +got):\n%s", diff)
		}

		ended := time.Now()
		b := w.node("b", nil).join()
		want(b, "start after an orderly end", "LIST members/", "GET "+epoch(2), "PUT heartbeat/b", "PUT "+epoch(3), "LIST members/")
		if time.Since(ended) != 0 {
			t.Errorf("start after an orderly end took %v", time.Since(ended))
		}
		b.run()
		want(b, "tidying", "DELETE "+epoch(2))
		if diff := cmp.Diff([]string{"heartbeat/b", epoch(3)}, w.keys()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		c := w.node("c", nil)
		wantAlive(t, c.Join(t.Context()), "b")
		if got := c.requests(); len(got) > 2+4 || strings.Contains(strings.Join(got, " "), "PUT") {
			t.Errorf("refused start sent %v", got)
		}
		if err := c.Leave(t.Context()); err != nil || len(c.requests()) > 0 {
			t.Errorf("Leave of a node that wrote nothing: %v", err)
		}
	})
}

func TestTheRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("a", nil).join()
		e := w.newest()
		want := []storage.Member{{ID: "a", Address: "a.example:3000", Version: "v1", StartedAt: conversation.TimeOf(time.Now()), Records: conversation.Types()}}
		if diff := cmp.Diff(want, e.Members); diff != "" || e.N != 1 || e.At != conversation.TimeOf(time.Now()) {
			t.Errorf("epoch %d of %v (-want +got):\n%s", e.N, e.At, diff)
		}
	})
}

// TestRefusedWhileAnotherIsAlive starts nodes at every phase of the heartbeat.
func TestRefusedWhileAnotherIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("a", nil).join().run()
		stored := w.newest()
		for i := range 20 {
			time.Sleep(heartbeat/20 + heartbeat)
			began := time.Now()
			wantAlive(t, w.node(fmt.Sprint("b", i), nil).Join(t.Context()), "a")
			if took := time.Since(began); took > 2*heartbeat {
				t.Errorf("refused after %v", took)
			}
		}
		if diff := cmp.Diff(stored, w.newest()); diff != "" || len(w.keys()) != 2 {
			t.Errorf("refused nodes changed the bucket to %v (-before +after):\n%s", w.keys(), diff)
		}
	})
}

func TestCrashedMembersAreReplaced(t *testing.T) {
	for name, leave := range map[string]func(*world, *node){
		"killed": func(*world, *node) {},
		"killed, its heartbeat deleted": func(w *world, a *node) {
			if err := storage.DeleteHeartbeat(w.t.Context(), w.bucket, a.id); err != nil {
				w.t.Error(err)
			}
		},
		"killed, its heartbeat broken": func(w *world, a *node) {
			if err := w.bucket.Put(w.t.Context(), storage.HeartbeatKey(a.id), storage.Bytes([]byte("x"))); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a := w.node("a", nil).join().run()
				time.Sleep(10 * time.Second)
				a.kill()
				leave(w, a)
				began := time.Now()
				b := w.node("b", nil).join()
				if took := time.Since(began); took != suspect {
					t.Errorf("the start took %v, want %v", took, suspect)
				}
				w.wantMembers("b")
				b.run()
				synctest.Wait()
				if diff := cmp.Diff([]string{"heartbeat/b", storage.EpochKey(2)}, w.keys()); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestSamePublicAddressMustBeSilent restarts a node at its public address: its old row is treated like any
// other.
func TestSamePublicAddressMustBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.node("a", nil).join().run()
		again, err := membership.New(w.bucket, membership.Self{ID: "a2", Address: "a.example:3000"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantAlive(t, again.Join(t.Context()), "a")
		a.kill()
		if err := again.Join(t.Context()); err != nil {
			t.Error(err)
		}
		w.wantMembers("a2")
	})
}

// TestSeveralMembers: all rows of an epoch must be silent.
func TestSeveralMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.node("a", nil).join().run()
		e := w.newest()
		e.N, e.Nonce = 2, "n"
		e.Members = append([]storage.Member{{ID: "dead"}}, e.Members...)
		if won, err := storage.CreateEpoch(t.Context(), w.bucket, e); err != nil || !won {
			t.Fatal(won, err)
		}
		wantAlive(t, w.node("b", nil).Join(t.Context()), "a")
		time.Sleep(10 * time.Second) // The newer epoch contains a, which stays.
		wantAlive(t, w.node("b", nil).Join(t.Context()), "a")
		w.wantMembers("a") // a has expelled the other
		a.leave()
		w.wantMembers()
		w.node("b", nil).join()
		w.wantMembers("b")
	})
}

// TestStartAtOnce starts nodes at the same time over a slow bucket that loses responses, on an empty
// bucket and after a crash. Exactly one may serve.
func TestStartAtOnce(t *testing.T) {
	for seed := range sample.Of[uint64](60, 6) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			if seed%2 == 1 {
				w.node("dead", nil).join()
			}
			const nodes = 4
			var wg sync.WaitGroup
			errs := make([]error, nodes)
			for i := range nodes {
				n := w.slowNode(fmt.Sprint("n", i), nil, storagetest.Plan{
					Seed: seed<<8 | uint64(i), Latency: 200 * time.Millisecond,
					Match: func(op storagetest.Op) bool { return op.Method == "PUT" && strings.HasPrefix(op.Key, "members/") },
					Rates: map[storagetest.Kind]float64{storagetest.LostAck: .2, storagetest.ErrorAfter: .1, storagetest.Timeout: .1},
				})
				wg.Go(func() {
					if errs[i] = n.Join(t.Context()); errs[i] == nil {
						n.run()
					}
				})
			}
			wg.Wait()
			winner := ""
			for i, err := range errs {
				if err == nil && winner != "" {
					t.Errorf("seed %d: both %s and n%d serve", seed, winner, i)
				}
				if err == nil {
					winner = fmt.Sprint("n", i)
				}
			}
			for i, err := range errs {
				if err != nil {
					wantAlive(t, err, winner)
				}
				if heart := "heartbeat/n" + fmt.Sprint(i); err != nil && strings.Contains(strings.Join(w.keys(), " "), heart) {
					t.Errorf("seed %d: refused node left %s", seed, heart)
				}
			}
			w.wantMembers(winner)
		})
	}
}

// TestSlowClaim: a node knows only half of its claim for a long time. Others already see it, and must
// see it alive.
func TestSlowClaim(t *testing.T) {
	for name, unresponsive := range map[string]func(storagetest.Op) bool{
		"the create is not answered": func(op storagetest.Op) bool { return op.Key == storage.EpochKey(1) },
		"the list is not answered":   func(op storagetest.Op) bool { return op.Method == "LIST" && op.Attempt > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				began := time.Now()
				a := w.node("a", func(op storagetest.Op) storagetest.Kind {
					if unresponsive(op) && time.Since(began) < 20*time.Second {
						return storagetest.LostAck
					}
					return storagetest.None
				})
				joined := make(chan error, 1)
				go func() { joined <- a.Join(t.Context()) }()
				time.Sleep(10 * time.Second)
				wantAlive(t, w.node("b", nil).Join(t.Context()), "a")
				if err := <-joined; err != nil || time.Since(began) < 20*time.Second {
					t.Errorf("joined after %v: %v", time.Since(began), err)
				}
				w.wantMembers("a")
			})
		})
	}
}

// TestStaleView: a node creates a number that became free during its pause. The epochs have moved on
// and another node serves.
func TestStaleView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var once sync.Once
		a := w.node("a", func(op storagetest.Op) storagetest.Kind {
			if op.Method == "PUT" {
				once.Do(func() {
					w.node("b", nil).join().run().leave()
					w.node("c", nil).join().run()
					synctest.Wait()
				})
			}
			return storagetest.None
		})
		wantAlive(t, a.Join(t.Context()), "c")
		w.wantMembers("c")
		if got := strings.Join(a.requests(), "\n"); !strings.Contains(got, "PUT "+storage.EpochKey(1)+"\nLIST members/") {
			t.Errorf("no stale create:\n%s", got)
		}
		if keys := w.keys(); strings.Contains(strings.Join(keys, " "), "heartbeat/a") {
			t.Errorf("leftovers: %v", keys)
		}
	})
}

// TestPausedNodeIsReplaced freezes a node for longer than Suspect.
func TestPausedNodeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.node("a", nil).join().run()
		time.Sleep(3 * time.Second)
		synctest.Wait() // The heartbeat of this moment must not land after b's first check.
		goOn := a.freeze()
		b := w.node("b", nil).join().run()
		time.Sleep(20 * time.Second)
		goOn()
		resumed := time.Now()
		err := a.ended()
		var replaced *membership.ReplacedError
		if !errors.As(err, &replaced) || replaced.Epoch != 2 || len(replaced.Members) != 1 || replaced.Members[0].ID != "b" || !strings.Contains(err.Error(), "b.example:3000") {
			t.Fatalf("got %v, want replaced by b", err)
		}
		if took := time.Since(resumed); took > 5*heartbeat {
			t.Errorf("detected after %v", took)
		}
		if err := a.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		w.wantMembers("b")
		wantAlive(t, w.node("c", nil).Join(t.Context()), "b")
		b.leave()
		if diff := cmp.Diff([]string{storage.EpochKey(3)}, w.keys()); diff != "" {
			t.Errorf("leftovers (-want +got):\n%s", diff)
		}
	})
}

// TestBucketAway stalls the bucket for a member: it stays, logs it once, and resumes afterwards.
func TestBucketAway(t *testing.T) {
	for name, kind := range map[string]storagetest.Kind{"errors": storagetest.ErrorBefore, "no answers": storagetest.Timeout} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var mu sync.Mutex
				now := storagetest.None
				set := func(k storagetest.Kind) {
					mu.Lock()
					defer mu.Unlock()
					now = k
				}
				a := w.node("a", func(storagetest.Op) storagetest.Kind {
					mu.Lock()
					defer mu.Unlock()
					return now
				}).join().run()
				for range 2 {
					set(kind)
					time.Sleep(time.Minute)
					set(storagetest.None)
					time.Sleep(10 * time.Second)
				}
				logs := a.logs.String()
				for _, line := range []string{"membership unconfirmed", "membership confirmed again"} {
					if got := strings.Count(logs, line); got != 2 {
						t.Errorf("%q logged %d times, want 2:\n%s", line, got, logs)
					}
				}
				if got := strings.Count(logs, "\n"); got != 4 {
					t.Errorf("%d log lines, want 4:\n%s", got, logs)
				}
				wantAlive(t, w.node("b", nil).Join(t.Context()), "a")
				a.leave()
			})
		})
	}
}

// TestBucketTakesNoWrites silences a member and a starting node alike. When the bucket accepts writes
// again, the member wins.
func TestBucketTakesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var readOnly atomic.Bool
		plan := func(op storagetest.Op) storagetest.Kind {
			if op.Method == "PUT" && readOnly.Load() {
				return storagetest.ErrorBefore
			}
			return storagetest.None
		}
		w.node("a", plan).join().run()
		time.Sleep(3 * time.Second)
		readOnly.Store(true)
		joined := make(chan error, 1)
		b := w.node("b", plan)
		go func() { joined <- b.Join(t.Context()) }()
		time.Sleep(30 * time.Second)
		readOnly.Store(false)
		wantAlive(t, <-joined, "a")
		w.wantMembers("a")
		if diff := cmp.Diff([]string{"heartbeat/a", storage.EpochKey(1)}, w.keys()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
}

// TestHangingHeartbeat: every second heartbeat hangs; the others arrive in time.
func TestHangingHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.node("a", nil)
		beats := 0
		a.hang = func(request string) bool {
			if request == "PUT heartbeat/a" {
				beats++
			}
			return request == "PUT heartbeat/a" && beats%2 == 0
		}
		a.join().run()
		for i := range 10 {
			time.Sleep(700 * time.Millisecond)
			wantAlive(t, w.node(fmt.Sprint("b", i), nil).Join(t.Context()), "a")
		}
		if beats < 10 {
			t.Errorf("unexpected number of heartbeats: %d", beats)
		}
	})
}

// TestJoinCanceled cancels a start at different times. It must leave nothing that delays the next one.
func TestJoinCanceled(t *testing.T) {
	never := func(prefix string, kind storagetest.Kind) func(storagetest.Op) storagetest.Kind {
		return func(op storagetest.Op) storagetest.Kind {
			if op.Method == "PUT" && strings.HasPrefix(op.Key, prefix) {
				return kind
			}
			return storagetest.None
		}
	}
	for name, plan := range map[string]func(storagetest.Op) storagetest.Kind{
		"heartbeat never stored":             never("heartbeat/", storagetest.Timeout),
		"epoch never stored":                 never(storage.EpochKey(1), storagetest.Timeout),
		"epoch stored, response always lost": never(storage.EpochKey(1), storagetest.LostAck),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := w.node("a", plan).Join(ctx); err == nil {
					t.Fatal("joined")
				}
				began := time.Now()
				w.node("b", nil).join()
				if took := time.Since(began); took != 0 {
					t.Errorf("next start took %v", took)
				}
				if got := strings.Join(w.keys(), " "); strings.Contains(got, "heartbeat/a") {
					t.Errorf("leftovers: %s", got)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("dead", nil).join()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := w.keys()
		if err := w.node("a", nil).Join(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled while watching: %v", err)
		}
		if diff := cmp.Diff(before, w.keys()); diff != "" {
			t.Errorf("bucket changed (-before +after):\n%s", diff)
		}
	})
}

func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		put := func(content string) {
			t.Helper()
			if err := w.bucket.Put(t.Context(), storage.EpochKey(1), storage.Bytes([]byte(content))); err != nil {
				t.Fatal(err)
			}
		}
		put(`{"v":9}`)
		a := w.node("a", nil)
		var format *storage.FormatError
		if err := a.Join(t.Context()); !errors.As(err, &format) || format.StoredVersion != 9 {
			t.Errorf("newer version: %v", err)
		}
		put("x")
		var corrupt *storage.CorruptError
		if err := a.Join(t.Context()); !errors.As(err, &corrupt) {
			t.Errorf("corrupt epoch: %v", err)
		}
		if got := strings.Join(a.requests(), " "); strings.Contains(got, "PUT") || strings.Contains(got, "DELETE") {
			t.Errorf("requests: %s", got)
		}
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := a.Join(t.Context()); !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("no bucket: %v", err)
		}
	})
}
