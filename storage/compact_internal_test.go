package storage

import (
	"testing"

	"github.com/parleyrun/parley/internal/sample"
)

// TestMergesStayCheap merges the segments of a long conversation as they are stored. It bounds the
// bytes rewritten and the number of segments that remain.
func TestMergesStayCheap(t *testing.T) {
	const rewrites = 3.1
	compactions := sample.Of[int64](20_000, 4_000)
	for _, size := range []int64{300, 1500, 5000, 12_000, 100_000} {
		c := &Compactor{logs: &Logs{sizes: defaultSizes()}}
		var data, written int64
		most := 0
		for i := range compactions {
			ref := SegmentRef{First: i, Last: i, Size: size + size*(i%7)} // sizes vary
			c.refs = append(c.refs, ref)
			data += ref.Size
			for from, to := c.mergeable(); from < to; from, to = c.mergeable() {
				whole := SegmentRef{First: c.refs[from].First, Last: c.refs[to-1].Last}
				for _, part := range c.refs[from:to] {
					whole.Size += part.Size
				}
				written += whole.Size
				c.refs = append(c.refs[:from], append([]SegmentRef{whole}, c.refs[to:]...)...)
			}
			small := 0
			for _, ref := range c.refs {
				if c.logs.sizes.class(ref.Size) < sizeClasses {
					small++
				}
			}
			most = max(most, small)
		}
		large := int(data / (c.logs.sizes.merged / 2))
		t.Logf("%d bytes and more each: %d MiB, rewritten %.1f times, %d segments, %d small ones at most",
			size, data>>20, float64(written)/float64(data), len(c.refs), most)
		if float64(written) > rewrites*float64(data) || len(c.refs) > large+most || most > 3*c.logs.sizes.width {
			t.Errorf("%d bytes and more each: %d of %d bytes rewritten, %d segments, %d small ones at most", size, written, data, len(c.refs), most)
		}
	}
}
