package membership_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/storage/storagetest"
)

// TestUnconfirmedMemberIsExpelled: a node whose heartbeats are stored but whose lists
// hang is passive. It holds a share that no node serves, so it must be expelled.
func TestUnconfirmedMemberIsExpelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(latency, "a", "c")
		b := w.peer("b", storagetest.Plan{Latency: latency})
		var cut atomic.Bool
		b.hang = func(request string) bool { return cut.Load() && strings.HasPrefix(request, "LIST") }
		b.join().run()
		time.Sleep(5 * time.Second)
		cut.Store(true)
		time.Sleep(time.Minute)
		if !b.Passive() {
			t.Fatal("b is not passive")
		}
		w.wantViews(values(peers), "a", "c")
		cut.Store(false)
		wantReplaced(t, b)
	})
}

// TestListsThatStallForAllExpelNone: hanging lists of all nodes are a fault of the bucket.
func TestListsThatStallForAllExpelNone(t *testing.T) {
	for _, length := range []time.Duration{3 * time.Second, 10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var nodes []*node
			var cut atomic.Bool
			for _, id := range []string{"a", "b", "c", "d"} {
				n := w.peer(id, storagetest.Plan{Latency: latency})
				n.hang = func(request string) bool { return cut.Load() && strings.HasPrefix(request, "LIST") }
				nodes = append(nodes, n.join().run())
			}
			time.Sleep(5 * time.Second)
			cut.Store(true)
			time.Sleep(length)
			cut.Store(false)
			time.Sleep(10 * time.Second)
			w.wantViews(nodes, "a", "b", "c", "d")
			for _, n := range nodes {
				if n.Passive() {
					t.Errorf("%s is passive", n.id)
				}
			}
		})
	}
}

// TestIntervalsMayChangeOneNodeAtATime: operations.md recommends 2s/8s/6s where requests are billed,
// with a rolling restart. It takes two steps: suspect first on all nodes, then the other two.
func TestIntervalsMayChangeOneNodeAtATime(t *testing.T) {
	type times struct{ heartbeat, suspect, fence time.Duration }
	before, between, after := times{heartbeat, suspect, fence}, times{heartbeat, 8 * time.Second, fence}, times{2 * time.Second, 8 * time.Second, 6 * time.Second}
	for _, tt := range []struct {
		name     string
		old, new times
	}{{"first step", before, between}, {"second step", between, after}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var nodes []*node
				for _, id := range []string{"a", "b", "c"} {
					n, o := &node{w: w, id: id, logs: &waiting.Log{}}, tt.old
					if id == "c" {
						o = tt.new
						beats := 0
						n.hang = func(request string) bool { // Every tenth heartbeat takes half a second.
							if request == "PUT heartbeat/c" {
								if beats++; beats%10 == 0 {
									time.Sleep(500 * time.Millisecond)
								}
							}
							return false
						}
					}
					var err error
					n.Membership, err = membership.New(n.over(storagetest.Faulty(w.store, storagetest.Plan{Latency: time.Millisecond})),
						membership.Self{ID: id, Address: id + ".example:3000", Node: id + ".example:7946", Weight: 1},
						&membership.Options{Heartbeat: o.heartbeat, Suspect: o.suspect, Fence: o.fence, Publish: n.publish})
					if err != nil {
						t.Fatal(err)
					}
					nodes = append(nodes, n.join().run())
				}
				time.Sleep(2 * time.Minute)
				w.wantMembers("a", "b", "c")
				for _, n := range nodes {
					if n.Passive() {
						t.Errorf("%s is passive", n.id)
					}
				}
			})
		})
	}
}
