package grain_test

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkLife reports what New, Start and Stop of an idle single-member cluster take, one by one.
func BenchmarkLife(b *testing.B) {
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
		for b.Loop() {
			if _, err := c.Request(context.Background(), "a", text("m")); err != nil {
				b.Fatal(err)
			}
		}
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
