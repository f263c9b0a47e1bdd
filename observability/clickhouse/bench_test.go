package clickhouse_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// BenchmarkIngest writes new events all the time. Server, protocol and sink share the machine; the CPU
// time is that of the sink and its driver alone.
func BenchmarkIngest(b *testing.B) {
	s := clickhousetest.Start(b)
	for _, protocol := range []string{"native", "http"} {
		for _, group := range []int{1000, 10_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", protocol, group), func(b *testing.B) {
				o := options(b, s, s.Database(b))
				if protocol == "http" {
					o = overHTTP(s, o)
				}
				sink, err := clickhouse.NewSink(migrated(b, o))
				if err != nil {
					b.Fatal(err)
				}
				events := traffic(group/8, 1)
				for len(events) < group {
					events = append(events, events[:min(len(events), group-len(events))]...)
				}
				events = events[:group]
				b.ReportAllocs()
				before := processorTime(b)
				for n := 0; b.Loop(); n++ {
					renamed(events, n)
					if err := sink.Write(b.Context(), events); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N*group), "cpu-ns/event")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// renamed makes events new: with unused ids and submissions, and later times.
func renamed(events []observability.Event, n int) {
	for i := range events {
		e := &events[i]
		e.Seq, e.At = int64(n), dayStart+(e.At-dayStart)%86_400_000
		e.ID = fmt.Sprintf("0123456789abcdef0123456789abcdef/%d/%d", n, i)
	}
}

// processorTime returns the CPU time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
