package clickhouse_test

import (
	"fmt"
	"testing"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
)

// BenchmarkIngest writes different events all the time. The server, its protocol and
// the sink share the machine.
func BenchmarkIngest(b *testing.B) {
	s := clickhousetest.Start(b, nil)
	for _, protocol := range []string{"native", "http"} {
		for _, group := range []int{10_000, 50_000} {
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
				for n := 0; b.Loop(); n++ {
					renamed(events, n)
					if err := sink.Write(b.Context(), events); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// renamed makes new events of the same ones: ids and submissions that were not there,
// and moments that go on.
func renamed(events []observability.Event, n int) {
	for i := range events {
		e := &events[i]
		e.Seq, e.At = int64(n), dayStart+(e.At-dayStart)%86_400_000
		e.ID = fmt.Sprintf("0123456789abcdef0123456789abcdef/%d/%d", n, i)
	}
}
