package membership_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/actors/internal/membership"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// deleteEpochs deletes all epochs, as an operator could, and returns the newest.
func (w *world) deleteEpochs() storage.Epoch {
	w.t.Helper()
	newest := w.newest()
	for _, key := range w.keys() {
		if strings.HasPrefix(key, "members/") {
			if err := w.bucket.Delete(context.Background(), key); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return newest
}

func wantGone(t *testing.T, n *node, epoch int64) {
	t.Helper()
	var gone *membership.GoneError
	if err := n.ended(); !errors.As(err, &gone) || gone.Epoch != epoch {
		t.Errorf("%s ended with %v, want epoch %d deleted", n.id, err, epoch)
	}
	if err := n.AwaitActive(t.Context()); !errors.As(err, &gone) || !n.Passive() {
		t.Errorf("%s: passive %v, AwaitActive: %v", n.id, n.Passive(), err)
	}
	if got := strings.Count(n.logs.String(), "membership epochs deleted"); got != 1 {
		t.Errorf("%s logged the deletion %d times, want 1:\n%s", n.id, got, n.logs)
	}
}

// TestEpochsAreDeleted deletes members/* of two running nodes while a third one starts. The two become
// passive immediately and end. The third waits for that. All restart as members of one cluster.
func TestEpochsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(latency, "a", "b")
		time.Sleep(5 * time.Second)
		old := w.deleteEpochs()
		began := time.Now()
		founded := make(chan *node)
		go func() { founded <- w.peer("c", storagetest.Plan{Latency: latency}).join().run() }()
		time.Sleep(heartbeat)
		for id, n := range peers {
			if !n.Gone() || !n.Passive() || n.Fresh() {
				t.Errorf("%s: gone %v, passive %v, fresh %v", id, n.Gone(), n.Passive(), n.Fresh())
			}
		}
		for _, n := range peers {
			wantGone(t, n, old.N)
			if took := time.Since(began); took > suspect+heartbeat {
				t.Errorf("%s ended after %v", n.id, took)
			}
			if err := n.Leave(t.Context()); err != nil {
				t.Error(err)
			}
		}
		again := []*node{w.peer("a2", storagetest.Plan{Latency: latency}).join().run(), <-founded, w.peer("b2", storagetest.Plan{Latency: latency}).join().run()}
		if took := time.Since(began); took > 2*suspect+3*heartbeat {
			t.Errorf("all nodes restarted after %v", took)
		}
		time.Sleep(heartbeat)
		e := w.newest()
		for _, n := range again {
			if !e.Has(n.id) || n.last().Epoch != e.N || len(e.Members) != 3 {
				t.Errorf("%s is at epoch %d, the newest is %d with %d members", n.id, n.last().Epoch, e.N, len(e.Members))
			}
		}
	})
}

// TestEpochsComeBack restores a deleted epoch within Suspect.
func TestEpochsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.peers(latency, "a")["a"]
		time.Sleep(time.Second)
		old := w.deleteEpochs()
		time.Sleep(suspect - heartbeat)
		if won, err := storage.CreateEpoch(t.Context(), w.bucket, old); err != nil || !won {
			t.Fatal(won, err)
		}
		time.Sleep(heartbeat)
		if a.Gone() || a.Passive() || !a.Fresh() {
			t.Errorf("gone %v, passive %v, fresh %v", a.Gone(), a.Passive(), a.Fresh())
		}
		time.Sleep(5 * time.Second)
		w.wantMembers("a")
	})
}

// TestOtherMembersBegin: another node starts again with a lower number while a node runs.
func TestOtherMembersBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peers := w.peers(latency, "a", "b")
		time.Sleep(time.Second)
		peers["b"].leave()
		time.Sleep(heartbeat)
		old := w.deleteEpochs()
		if won, err := storage.CreateEpoch(t.Context(), w.bucket, storage.Epoch{N: 1, Nonce: "other", Members: old.Members}); err != nil || !won {
			t.Fatal(won, err)
		}
		wantGone(t, peers["a"], old.N)
	})
}

// TestStartWithStrays starts a node with heartbeats but no epoch: of a live node, and of crashed ones.
func TestStartWithStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		beating, stop := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for count := int64(1); beating.Err() == nil; count++ {
				_ = storage.PutHeartbeat(context.Background(), w.bucket, storage.Heartbeat{Member: "old", Count: count})
				time.Sleep(heartbeat)
			}
		}()
		time.Sleep(time.Second)
		began := time.Now()
		var stray *membership.StrayError
		if err := w.peer("a", storagetest.Plan{}).Join(t.Context()); !errors.As(err, &stray) || stray.Member != "old" {
			t.Errorf("got %v, want a refusal because of old", err)
		}
		if took := time.Since(began); took < 3*suspect || took > 3*suspect+2*heartbeat {
			t.Errorf("took %v", took)
		}
		if strings.Contains(strings.Join(w.keys(), " "), "members/") {
			t.Errorf("stored: %v", w.keys())
		}
		stop()
		<-stopped
		began = time.Now()
		w.peer("b", storagetest.Plan{}).join()
		if took := time.Since(began); took < suspect || took > suspect+heartbeat {
			t.Errorf("start with stale heartbeats took %v", took)
		}
		w.wantMembers("b")
	})
}
