package bench

import (
	"math"
	"slices"
	"time"
)

// Latency is a distribution of times, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// NewLatency sorts the samples in place. Without samples it returns zeros.
func NewLatency(samples []time.Duration) Latency {
	slices.Sort(samples)
	at := func(q float64) float64 { return milliseconds(Quantile(samples, q)) }
	return Latency{P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}

// Quantile returns the nearest-rank quantile: the smallest sample that is not below a share q of all
// samples. The result is always a measured value. The samples are sorted; without any it returns 0. A
// q outside of 0 to 1 counts as the nearer end.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
