package actors_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/proc"
)

// TestUnreachableJoinerLeavesOthersReady: a second node with a wrong address, or a certificate
// of another CA, is one of two members. It is no majority and owns nothing, so every request is
// served.
func TestUnreachableJoinerLeavesOthersReady(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	o := agents(chatAgent())
	o.AdmitTimeout = patience
	a := w.together(1, setup{opts: o, model: emits(3)})[0]
	free, err := proc.FreeAddresses(proc.Host(), 1)
	if err != nil {
		t.Fatal(err)
	}
	o.Cluster = &actors.ClusterOptions{Listen: free[0], Advertise: "127.0.0.1:1", Insecure: true}
	unreachable := w.start(setup{opts: o, model: emits(3)})
	// It never answers a ping, so the status does not change any more.
	eventually(t, "a ready node that reaches none of one other", func() bool {
		st := a.rt.Status()
		return st.Members == 2 && st.Others == 1 && st.Reachable == 0 && st.Ready
	})
	var wg sync.WaitGroup
	for i := range 20 { // concurrently: each waits a second for the unreachable node to release the conversation
		wg.Go(func() {
			if _, err := a.rt.Admit(t.Context(), message(chat(fmt.Sprint("c", i)), "k", "hello")); err != nil {
				t.Errorf("message %d through the reachable node: %v", i, err)
			}
		})
	}
	wg.Wait()
	eventually(t, "an unreachable node that is not ready, with its reason", func() bool {
		st := unreachable.rt.Status()
		return !st.Ready && strings.Contains(st.Reason, "not reached: 0 of 1") && st.Unreached == 1
	})
	eventually(t, "heartbeats with reachability", func() bool {
		v, err := actors.ReadCluster(t.Context(), w.bucket)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range v.Members {
			checkConsistent := m.ID == a.rt.Status().Member
			if checkConsistent != (m.Share == 1) || checkConsistent == (m.Share == 0) || m.Wants == 0 != checkConsistent {
				t.Fatalf("member %s has a share of %v, weight %d, wants %d", m.ID, m.Share, m.Weight, m.Wants)
			}
			if m.Reach == nil || m.Reach.Reached != 0 || len(m.Reach.Missing) != 1 {
				return false
			}
		}
		return len(v.Members) == 2
	})
}

// TestAllNodesLeaveTogether: nodes that leave at the same time do not wait for each other.
func TestAllNodesLeaveTogether(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	model := make(stage)
	opts := agents(chatAgent())
	opts.DrainTimeout = 2 * patience
	nodes := w.together(2, setup{opts: opts, model: model})
	at := ownedBy(t, nodes[0], "c")
	nodes[1].admit(at, "k", "hello")
	call := model.next(t)
	call.text("half a ")
	w.until("the first half", func() bool { return strings.Contains(w.lines(at), "half a ") })
	began := time.Now()
	ended := make(chan error, 2)
	for _, n := range nodes {
		go func() { ended <- n.rt.HandOver(context.Background()) }()
	}
	for range nodes {
		t.Logf("handover: %v after %v", await(t, ended, "handover"), time.Since(began))
	}
}

// TestLastDrainedNodeServes: a drained node is the only one left and must serve.
func TestLastDrainedNodeServes(t *testing.T) {
	if isolated(t) {
		return
	}
	w := newWorld(t)
	nodes := w.together(2, setup{opts: agents(chatAgent()), model: emits(3)})
	if _, err := actors.SetDraining(context.Background(), w.bucket, nodes[1].rt.Status().Member, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the drain", func() bool { return nodes[0].rt.Status().Draining == 1 && nodes[1].rt.Status().Draining == 1 })
	if err := nodes[0].stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a node alone", func() bool { return nodes[1].rt.Status().Members == 1 })
	if _, err := nodes[1].rt.Admit(context.Background(), message(chat("c"), "k", "hello")); err != nil {
		t.Errorf("rejected by the only node: %v", err)
	}
	eventually(t, "the only node of the cluster to be ready", func() bool { return nodes[1].rt.Status().Ready })
}
