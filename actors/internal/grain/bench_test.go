package grain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors/internal/grain"
)

// BenchmarkStartStop measures New, Start and Stop of an idle single-member cluster.
func BenchmarkStartStop(b *testing.B) {
	var made, started, stopped time.Duration
	for b.Loop() {
		t0 := time.Now()
		c := build(b, actorFunc(echo), nil)
		t1 := time.Now()
		if err := c.Start(context.Background()); err != nil {
			b.Fatal(err)
		}
		t2 := time.Now()
		if err := c.Stop(context.Background()); err != nil {
			b.Fatal(err)
		}
		made, started, stopped = made+t1.Sub(t0), started+t2.Sub(t1), stopped+time.Since(t2)
	}
	for unit, d := range map[string]time.Duration{"new-ns": made, "start-ns": started, "stop-ns": stopped} {
		b.ReportMetric(float64(d.Nanoseconds())/float64(b.N), unit)
	}
}

func BenchmarkRequest(b *testing.B) {
	b.Run("serial", func(b *testing.B) {
		c := start(b, actorFunc(echo), nil)
		took := make([]time.Duration, 0, 1<<16)
		for b.Loop() {
			t0 := time.Now()
			if _, err := c.Request(context.Background(), "a", text("m")); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(t0))
		}
		reportMedian(b, took)
	})
	b.Run("64 callers", func(b *testing.B) {
		c := start(b, actorFunc(echo), nil)
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for n := 0; pb.Next(); n++ {
				if _, err := c.Request(context.Background(), fmt.Sprint(n%1000), text("m")); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("activation", func(b *testing.B) {
		c := start(b, actorFunc(echo), nil)
		for n := 0; b.Loop(); n++ {
			if _, err := c.Request(context.Background(), fmt.Sprint(n), text("m")); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRemoteRequest sends sequential requests to an activation on another member.
func BenchmarkRemoteRequest(b *testing.B) {
	nodes, views := pair(b)
	id := ownedBy(views[1].self, 1, views[0].self, views[1].self)[0]
	ask(b, nodes[0], id, "m")
	took := make([]time.Duration, 0, 1<<16)
	for b.Loop() {
		t0 := time.Now()
		if _, err := nodes[0].Request(context.Background(), id, text("m")); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(t0))
	}
	reportMedian(b, took)
}

func reportMedian(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
}

// pair returns two members in this process with a common view.
func pair(b *testing.B) ([2]*grain.Cluster, [2]*handDriven) {
	b.Helper()
	keys, err := grain.NewKeys()
	if err != nil {
		b.Fatal(err)
	}
	var nodes [2]*grain.Cluster
	var views [2]*handDriven
	for i := range nodes {
		views[i] = newHandDriven()
		nodes[i] = build(b, actorFunc(echo), &grain.Options{Membership: views[i]})
		nodes[i].UseKeys(keys)
		if err := nodes[i].Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { stop(b, nodes[i]) })
	}
	for _, v := range views {
		v.show(views[0].self, views[1].self)
	}
	return nodes, views
}
