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
	logSeed       = flag.Int64("logseed", -1, "run this seed of the simulation of a log alone and tell its trace")
	logCorruption = flag.Bool("logdamage", false, "run it with damage")
	logSchedules  = flag.Uint64("logschedules", sample.Of[uint64](800, 50), "run so many schedules of the simulation of a log")
)

const (
	// inBubble is how many schedules share a bubble, and codecs.
	inBubble = 50
	// damageEvery is how many schedules there are for each that also runs with damage.
	damageEvery = 16
	// checkLimit is far above what the check of a history takes.
	checkLimit = time.Minute
)

// logRun is a schedule that was run.
type logRun struct {
	seed   uint64
	report *logsim.Report
}

// verdict is the violation of a schedule, "" if there is none. It must be called outside
// of a bubble.
func (r logRun) verdict() string {
	if r.report.Violation != "" {
		return r.report.Violation
	}
	if err := r.report.History.Check(checkLimit); err != nil {
		return err.Error()
	}
	return ""
}

// runLogs runs schedules of a log one after the other. set completes their options.
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

// throughS3 lets a schedule use a real store behind the real client.
func throughS3(t *testing.T, o *logsim.Options) { o.Store = behindS3(t, memory(t)) }

// TestLogSimulation runs schedules with every rule in force.
func TestLogSimulation(t *testing.T) {
	if *logSeed >= 0 {
		run := runLogs(t, []uint64{uint64(*logSeed)}, func(_ *testing.T, o *logsim.Options) { o.Corruption = *logCorruption })[0]
		t.Logf("%s\n%v", strings.Join(run.report.Trace(), "\n"), run.report.Shown)
		if v := run.verdict(); v != "" {
			t.Errorf("seed %d: %s", *logSeed, v)
		}
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // Schedules leave much behind and hold little.
	seeds := append(schedule.Seeds(t, schedule.Lines(t, "testdata/logseeds.txt")...), logSeeds(*logSchedules)...)
	var mu sync.Mutex
	total, damaged := schedule.Shown{}, schedule.Shown{}
	operations := 0
	t.Run("bubble", func(t *testing.T) {
		for seeds := range slices.Chunk(seeds, inBubble) {
			t.Run(fmt.Sprint(seeds[0]), func(t *testing.T) {
				t.Parallel()
				hurt := slices.DeleteFunc(slices.Clone(seeds), func(seed uint64) bool { return seed%damageEvery > 0 })
				runs, broken := runLogs(t, seeds, nil), runLogs(t, hurt, withCorruption)
				mu.Lock()
				defer mu.Unlock()
				for _, r := range runs {
					total.Add(r.report.Shown)
					operations += r.report.History.Len()
					told(t, r, "")
				}
				for _, r := range broken {
					damaged.Add(r.report.Shown)
					told(t, r, " with damage")
				}
			})
		}
	})
	t.Logf("%d schedules with %d operations: %v", len(seeds), operations, total)
	t.Logf("with damage: %v", damaged)
	if n := int(*logSchedules); !t.Failed() && n >= 400 {
		for _, what := range append(logsim.Lacking(total, n), logsim.LackingOfCorruption(damaged, n/damageEvery)...) {
			t.Errorf("too little has happened to show anything: %s", what)
		}
	}
}

// told fails a test for a schedule with a violation.
func told(t *testing.T, r logRun, how string) {
	t.Helper()
	if v := r.verdict(); v != "" {
		t.Errorf("seed %d%s, to be kept in testdata/logseeds.txt: %s\n%s", r.seed, how, v, strings.Join(r.report.Trace(), "\n"))
	}
}

// TestLogSeedIsOneTrace runs schedules on one core, on two and on eight, and on another
// store: nothing but the seed decides what happens.
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
	// The race detector ends a process now and then that has fewer cores than it began with.
	for _, cores := range sample.Of([]int{1, 2, 8}, []int{0}) {
		before := runtime.GOMAXPROCS(cores)
		same(fmt.Sprintf("on %d cores", cores), nil)
		runtime.GOMAXPROCS(before)
	}
	same("behind s3", throughS3)
}

// TestStaleLists shows that a bucket whose LIST hides what was just created breaks the
// log: that it does not is what the startup probe is for.
func TestStaleLists(t *testing.T) {
	for seeds := range slices.Chunk(logSeeds(400), inBubble) {
		for _, r := range runLogs(t, seeds, func(_ *testing.T, o *logsim.Options) { o.StaleLists = .2 }) {
			if v := r.verdict(); v != "" {
				t.Logf("seed %d: %s", r.seed, v)
				return
			}
		}
	}
	t.Error("no schedule noticed")
}

// logSeeds returns the first seeds.
func logSeeds(n uint64) []uint64 {
	var seeds []uint64
	for seed := range n {
		seeds = append(seeds, seed)
	}
	return seeds
}
