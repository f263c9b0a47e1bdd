package storage_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/internal/schedule"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/internal/logsim"
)

var (
	logSeed       = flag.Int64("logseed", -1, "run only this seed of the log simulation and print its trace")
	logCorruption = flag.Bool("logdamage", false, "run the seed with corruption")
	logSchedules  = flag.Uint64("logschedules", sample.Of[uint64](800, 50), "number of schedules of the log simulation")
)

const (
	// inBubble is the number of schedules that share a bubble and codecs.
	inBubble = 50
	// corruptEvery is the number of schedules per schedule that also runs with corruption.
	corruptEvery = 16
	// checkLimit is far above the duration of a history check.
	checkLimit = time.Minute
)

// logRun is a completed schedule.
type logRun struct {
	seed   uint64
	report *logsim.Report
}

// verdict returns the violation of a schedule, "" if there is none. It must be called outside a
// bubble.
func (r logRun) verdict() string {
	if r.report.Violation != "" {
		return r.report.Violation
	}
	if err := r.report.History.Check(checkLimit); err != nil {
		return err.Error()
	}
	return ""
}

// runLogs runs schedules of a log one after another. set completes their options.
func runLogs(t *testing.T, seeds []uint64, set func(*testing.T, *logsim.Options)) []logRun {
	runs := make([]logRun, 0, len(seeds))
	synctest.Test(t, func(t *testing.T) {
		codecs := storage.NewLogs(nil, &storage.LogOptions{PageKeys: 6, Prefetch: 3}).WithSmallSegments(3)
		for _, seed := range seeds {
			o := logsim.Options{Seed: seed, Store: memory(t), Logs: codecs.OnBucket, Pending: pendingOf()}
			if set != nil {
				set(t, &o)
			}
			runs = append(runs, logRun{seed, logsim.Run(context.Background(), o)})
		}
	})
	return runs
}

func withCorruption(_ *testing.T, o *logsim.Options) { o.Corruption = true }

// throughS3 makes a schedule use a store behind the real S3 client.
func throughS3(t *testing.T, o *logsim.Options) { o.Store = behindS3(t, memory(t)) }

// TestLogSimulation runs schedules with every rule in force.
func TestLogSimulation(t *testing.T) {
	if *logSeed >= 0 {
		run := runLogs(t, []uint64{uint64(*logSeed)}, func(_ *testing.T, o *logsim.Options) { o.Corruption = *logCorruption })[0]
		t.Logf("%s\n%v", strings.Join(run.report.Trace(), "\n"), run.report.Counts)
		if v := run.verdict(); v != "" {
			t.Errorf("seed %d: %s", *logSeed, v)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // Schedules produce much garbage and retain little.
	seeds := append(schedule.Seeds(t, schedule.Lines(t, "testdata/logseeds.txt")...), logSeeds(*logSchedules)...)
	var mu sync.Mutex
	total, corrupt := schedule.Counts{}, schedule.Counts{}
	operations := 0
	t.Run("bubble", func(t *testing.T) {
		for seeds := range slices.Chunk(seeds, inBubble) {
			t.Run(fmt.Sprint(seeds[0]), func(t *testing.T) {
				t.Parallel()
				corrupted := slices.DeleteFunc(slices.Clone(seeds), func(seed uint64) bool { return seed%corruptEvery > 0 })
				runs, broken := runLogs(t, seeds, nil), runLogs(t, corrupted, withCorruption)
				mu.Lock()
				defer mu.Unlock()
				for _, r := range runs {
					total.Add(r.report.Counts)
					operations += r.report.History.Len()
					reportViolation(t, r, "")
				}
				for _, r := range broken {
					corrupt.Add(r.report.Counts)
					reportViolation(t, r, " with corruption")
				}
			})
		}
	})
	t.Logf("%d schedules with %d operations: %v", len(seeds), operations, total)
	t.Logf("with corruption: %v", corrupt)
	if n := int(*logSchedules); !t.Failed() && n >= 400 {
		for _, rule := range append(logsim.Lacking(total, n), logsim.LackingOfCorruption(corrupt, n/corruptEvery)...) {
			t.Errorf("schedules are too short to verify the rules: %s", rule)
		}
	}
}

func reportViolation(t *testing.T, r logRun, how string) {
	t.Helper()
	if v := r.verdict(); v != "" {
		t.Errorf("seed %d%s, to be kept in testdata/logseeds.txt: %s\n%s", r.seed, how, v, strings.Join(r.report.Trace(), "\n"))
	}
}

// TestLogSeedIsOneTrace checks that a seed gives the same trace on one, two and eight cores, and on
// another store.
func TestLogSeedIsOneTrace(t *testing.T) {
	seeds := logSeeds(sample.Of[uint64](24, 4))
	want := runLogs(t, seeds, nil)
	same := func(how string, set func(*testing.T, *logsim.Options)) {
		for i, r := range runLogs(t, seeds, set) {
			if diff := cmp.Diff(want[i].report.Trace(), r.report.Trace()); diff != "" {
				t.Errorf("seed %d %s (-want +got):\n%s", r.seed, how, diff)
			}
		}
	}
	// The race detector sometimes ends a process that has fewer cores than at its start.
	for _, cores := range sample.Of([]int{1, 2, 8}, []int{0}) {
		before := runtime.GOMAXPROCS(cores)
		same(fmt.Sprintf("on %d cores", cores), nil)
		runtime.GOMAXPROCS(before)
	}
	same("behind s3", throughS3)
}

// TestStaleLists shows that a bucket whose LIST hides recent creates breaks the log; the startup probe
// detects such a bucket.
func TestStaleLists(t *testing.T) {
	for seeds := range slices.Chunk(logSeeds(400), inBubble) {
		for _, r := range runLogs(t, seeds, func(_ *testing.T, o *logsim.Options) { o.StaleLists = .2 }) {
			if v := r.verdict(); v != "" {
				t.Logf("seed %d: %s", r.seed, v)
				return
			}
		}
	}
	t.Error("no schedule detected it")
}

// logSeeds returns the first seeds.
func logSeeds(n uint64) []uint64 {
	var seeds []uint64
	for seed := range n {
		seeds = append(seeds, seed)
	}
	return seeds
}
