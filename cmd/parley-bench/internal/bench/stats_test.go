package bench_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
)

// upTo returns 1 ms to n ms.
func upTo(n int) []time.Duration {
	var s []time.Duration
	for i := range n {
		s = append(s, time.Duration(i+1)*time.Millisecond)
	}
	return s
}

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"one, low", upTo(1), 0, time.Millisecond},
		{"one, high", upTo(1), 1, time.Millisecond},
		{"half of two is the first", upTo(2), 0.5, time.Millisecond},
		{"just over half of two", upTo(2), 0.51, 2 * time.Millisecond},
		{"half of three", upTo(3), 0.5, 2 * time.Millisecond},
		{"p50 of 100", upTo(100), 0.5, 50 * time.Millisecond},
		{"p90 of 100", upTo(100), 0.9, 90 * time.Millisecond},
		{"p99 of 100", upTo(100), 0.99, 99 * time.Millisecond},
		{"p99 of 99 is the last", upTo(99), 0.99, 99 * time.Millisecond},
		{"p99 of 101", upTo(101), 0.99, 100 * time.Millisecond},
		{"p99 of 1000", upTo(1000), 0.99, 990 * time.Millisecond},
		{"max", upTo(7), 1, 7 * time.Millisecond},
		{"below", upTo(7), -1, time.Millisecond},
		{"above", upTo(7), 2, 7 * time.Millisecond},
	} {
		if got := bench.Quantile(tt.sorted, tt.q); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLatency(t *testing.T) {
	backwards := upTo(200)
	for i, j := 0, len(backwards)-1; i < j; i, j = i+1, j-1 {
		backwards[i], backwards[j] = backwards[j], backwards[i]
	}
	for _, tt := range []struct {
		name    string
		samples []time.Duration
		want    bench.Latency
	}{
		{"none", nil, bench.Latency{}},
		{"parts of a millisecond", []time.Duration{1500 * time.Microsecond}, bench.Latency{P50: 1.5, P90: 1.5, P99: 1.5, Max: 1.5}},
		{"not sorted", backwards, bench.Latency{P50: 100, P90: 180, P99: 198, Max: 200}},
	} {
		if d := cmp.Diff(tt.want, bench.NewLatency(tt.samples)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}
