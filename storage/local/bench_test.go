package local_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// BenchmarkConditionalPut creates keys of 1 KiB. On pebble every one of them is synced.
func BenchmarkConditionalPut(b *testing.B) {
	for _, engine := range []string{"memory", "pebble"} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", engine, writers), func(b *testing.B) {
				s := local.NewMemory()
				if engine == "pebble" {
					s = open(b, b.TempDir())
				}
				body := pattern(1024, 1)
				b.ReportAllocs()
				b.ResetTimer()
				var next atomic.Int64
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							if err := s.Create(b.Context(), fmt.Sprintf("%02x/log/%016d", w, i), storage.Bytes(body)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
			})
		}
	}
}

// BenchmarkOpen opens and closes an empty folder.
func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		s, err := local.Open(b.TempDir(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
