package killrun_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/schedule"
)

var (
	seedFlag   = flag.String("seed", "", "run these seeds alone, separated by commas, over one place")
	cyclesFlag = flag.Int("cycles", 20, "run so many seeds of testdata/seeds.txt; over the S3 server a seventh of them")
)

func TestKillRun(t *testing.T) {
	runAll(t, append(kept(t), groups(t, *cyclesFlag, 10)...), func(t *testing.T) noderun.Place {
		return noderun.Place{Dir: t.TempDir()}
	})
}

// Over an S3 server, every server has to replace the previous one in the membership.
func TestKillRunBucket(t *testing.T) {
	s := s3server.Versitygw(t)
	runAll(t, groups(t, max(1, *cyclesFlag/7), 5), func(t *testing.T) noderun.Place {
		return noderun.NewBucket(t, s)
	})
}

// runAll performs runs, some concurrently, and logs their reports.
func runAll(t *testing.T, lists [][]uint64, where func(*testing.T) noderun.Place) {
	began := time.Now()
	var mu sync.Mutex
	total := newReport()
	cycles := 0
	t.Run("run", func(t *testing.T) {
		for i, seeds := range lists {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				rep := perform(t, where(t), seeds)
				mu.Lock()
				defer mu.Unlock()
				total.add(rep)
				cycles += len(seeds)
			})
		}
	})
	t.Logf("%d cycles in %d runs, %v:\n%s", cycles, len(lists), time.Since(began).Round(time.Second), total)
}

func perform(t *testing.T, p noderun.Place, seeds []uint64) report {
	t.Helper()
	return performWith(t, p, seeds, func(*run) {})
}

// performWith performs a run after a change to it, and checks it.
func performWith(t *testing.T, p noderun.Place, seeds []uint64, change func(*run)) report {
	t.Helper()
	var cycles []cycle
	for _, seed := range seeds {
		cycles = append(cycles, newCycle(seed))
	}
	r := newRun(t, p, cycles)
	change(r)
	if e := r.perform(); e != nil {
		flaws, err := audit(t.Context(), e, &r.report)
		if err != nil {
			flaws = append(flaws, err.Error())
		}
		for _, f := range flaws {
			r.Fail("%s", f)
		}
	}
	if r.Any() {
		t.Errorf("violations:\n%s", r.describe())
	}
	t.Logf("settled %v after the last restart", r.report.settledIn.Round(time.Millisecond))
	return r.report
}

// groups returns the first count seeds of the list, size to a place.
func groups(t *testing.T, count, size int) [][]uint64 {
	t.Helper()
	if *seedFlag != "" {
		return [][]uint64{schedule.Seeds(t, *seedFlag)}
	}
	seeds := schedule.Seeds(t, schedule.Lines(t, "testdata/seeds.txt")...)
	if count > len(seeds) {
		t.Fatalf("-cycles %d exceeds the %d listed seeds", count, len(seeds))
	}
	return slices.Collect(slices.Chunk(seeds[:count], size))
}

// kept returns the seeds of earlier failures.
func kept(t *testing.T) (lists [][]uint64) {
	t.Helper()
	if *seedFlag != "" {
		return nil
	}
	for _, line := range schedule.Lines(t, "testdata/failed.txt") {
		lists = append(lists, schedule.Seeds(t, line))
	}
	return lists
}

func (r *report) add(s report) {
	r.kills.Add(s.kills)
	r.interrupted.Add(s.interrupted)
	r.counts.Add(s.counts)
	r.late += s.late
	r.settledIn = max(r.settledIn, s.settledIn)
}

func (r report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kills at %v; %d of them later than meant\n", r.kills, r.late)
	fmt.Fprintf(&b, "submissions interrupted: %v\n", r.interrupted)
	fmt.Fprintf(&b, "longest settling after a last restart: %v\n", r.settledIn.Round(time.Millisecond))
	fmt.Fprintf(&b, "%v", r.counts)
	return b.String()
}
