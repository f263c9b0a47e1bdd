package actors

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/internal/s3front"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
	"github.com/parleyrun/parley/storage/s3"
	"github.com/parleyrun/parley/storage/storagetest"
)

var simSame = flag.Uint64("same", sample.Of[uint64](15, 3), "run so many seeds of the simulation three times and compare their traces")

// TestSameSeedSameTrace runs seeds on one core, on two, on more cores than the machine has with
// several schedules concurrently, and through the S3 client. A seed has one trace, to the nanosecond,
// for any goroutine scheduling.
func TestSameSeedSameTrace(t *testing.T) {
	system := newSimSystem(t)
	defer runtime.GOMAXPROCS(onCores(1))
	want := make([][]string, *simSame)
	known := map[string]int{}
	for seed := range want {
		want[seed] = runSchedule(t, system, sameSchedule(seed)).Trace()
		all := strings.Join(want[seed], "\n")
		if other, ok := known[all]; ok || len(want[seed]) < 20 {
			t.Errorf("seed %d: got %d lines, equal to seed %d: %v", seed, len(want[seed]), other, ok)
		}
		known[all] = seed
	}
	var mu sync.Mutex // Keeps the lines of a diff together.
	for cores, shards := range map[int]int{2: 1, 2 * runtime.NumCPU(): 4} {
		onCores(cores)
		t.Run(fmt.Sprint(cores), func(t *testing.T) {
			for shard := range shards {
				t.Run(fmt.Sprint(shard), func(t *testing.T) {
					t.Parallel()
					for seed := shard; seed < len(want); seed += shards {
						got := runSchedule(t, system, sameSchedule(seed)).Trace()
						mu.Lock()
						compareTraces(t, seed, want[seed], got)
						mu.Unlock()
					}
				})
			}
		})
	}
	for seed := range want {
		got := runScheduleOver(t, system, sameSchedule(seed), behindS3(t)).Trace()
		for i := range got { // The trace is more specific.
			got[i] = strings.ReplaceAll(got[i], ": status 404 NoSuchKey", "")
		}
		compareTraces(t, seed, want[seed], got)
	}
}

// behindS3 returns a bucket that accesses a store through the S3 client.
func behindS3(t *testing.T) func(*local.Store) storage.Bucket {
	return func(store *local.Store) storage.Bucket {
		b, err := s3.New(&s3.Options{Endpoint: s3front.Endpoint, Bucket: s3front.Bucket, PathStyle: true, Transport: s3front.New(store)})
		if err != nil {
			t.Fatal(err)
		}
		return storagetest.Exclusive(b)
	}
}

// onCores sets the number of cores and returns the old one. Under the race detector it changes
// nothing, because the detector sometimes aborts a process with fewer cores than before.
func onCores(n int) (before int) { return runtime.GOMAXPROCS(sample.Of(n, 0)) }

// sameSchedule alternates between four kinds: general, pending-work journals, crowded nodes, and
// trees.
func sameSchedule(i int) simSchedule {
	switch i % 4 {
	case 1:
		return simSchedule{simOfTrees(), uint64(i)}
	case 2:
		return simSchedule{simOfCrowds(), uint64(i)}
	case 3:
		return simSchedule{simOfJournals(), uint64(i)}
	}
	return simSchedule{simEverything(), uint64(i)}
}

// compareTraces reports the first difference between two traces.
func compareTraces(t *testing.T, seed int, want, got []string) {
	t.Helper()
	if slices.Equal(want, got) {
		return
	}
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	about := func(lines []string) string {
		return strings.Join(lines[max(0, min(n-3, len(lines))):min(n+3, len(lines))], "\n")
	}
	t.Errorf("seed %d: %d lines, then %d; from line %d on they differ:\n%s\n--- and then\n%s",
		seed, len(want), len(got), n, about(want), about(got))
}
