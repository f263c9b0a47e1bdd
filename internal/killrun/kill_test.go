package killrun_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/s3server"
)

var (
	seedFlag   = flag.String("seed", "", "run these seeds alone, separated by commas, over one place")
	cyclesFlag = flag.Int("cycles", 20, "run so many seeds of testdata/seeds.txt; over the S3 server a seventh of them")
)

// TestKillRun is the kill run over folders.
func TestKillRun(t *testing.T) {
	runAll(t, append(kept(t), groups(t, *cyclesFlag, 10)...), func(t *testing.T) noderun.Place {
		return noderun.Place{Dir: t.TempDir()}
	})
}

// TestKillRunBucket is the kill run over an S3 server, where every server has to
// take the place of the one before in the membership.
func TestKillRunBucket(t *testing.T) {
	s := s3server.Versitygw(t)
	runAll(t, groups(t, max(1, *cyclesFlag/7), 5), func(t *testing.T) noderun.Place {
		return noderun.NewBucket(t, s)
	})
}

// runAll performs runs, some at once, and tells what happened.
func runAll(t *testing.T, lists [][]uint64, where func(*testing.T) noderun.Place) {
	began := time.Now()
	var mu sync.Mutex
	total := report{kills: map[string]int{}, interrupted: map[string]int{}, counts: map[string]int{}}
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

// perform performs a run and checks it.
func perform(t *testing.T, p noderun.Place, seeds []uint64) report {
	t.Helper()
	var cycles []cycle
	for _, seed := range seeds {
		cycles = append(cycles, newCycle(seed))
	}
	r := newRun(t, p, cycles)
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
		t.Errorf("violations:\n%s", r.story())
	}
	t.Logf("settled %v after the last restart", r.report.settledIn.Round(time.Millisecond))
	return r.report
}

// groups returns the first seeds of the list, so many to a place.
func groups(t *testing.T, count, size int) [][]uint64 {
	t.Helper()
	if *seedFlag != "" {
		return [][]uint64{numbers(t, *seedFlag)}
	}
	var seeds []uint64
	for _, line := range lines(t, "testdata/seeds.txt") {
		seeds = append(seeds, numbers(t, line)...)
	}
	if count > len(seeds) {
		t.Fatalf("%d cycles are asked for and %d seeds are listed", count, len(seeds))
	}
	return slices.Collect(slices.Chunk(seeds[:count], size))
}

// kept returns the runs that have failed once.
func kept(t *testing.T) (lists [][]uint64) {
	t.Helper()
	if *seedFlag != "" {
		return nil
	}
	for _, line := range lines(t, "testdata/failed.txt") {
		lists = append(lists, numbers(t, line))
	}
	return lists
}

// lines returns the lines of a file without comments and empty ones.
func lines(t *testing.T, name string) (out []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func numbers(t *testing.T, text string) (out []uint64) {
	t.Helper()
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func (r *report) add(s report) {
	for from, to := range map[*map[string]int]map[string]int{&s.kills: r.kills, &s.interrupted: r.interrupted, &s.counts: r.counts} {
		for k, n := range *from {
			to[k] += n
		}
	}
	r.late += s.late
	r.settledIn = max(r.settledIn, s.settledIn)
}

// String tells what happened.
func (r report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kills at %s; %d of them later than meant\n", sorted(r.kills), r.late)
	fmt.Fprintf(&b, "submissions interrupted: %s\n", sorted(r.interrupted))
	fmt.Fprintf(&b, "longest settling after a last restart: %v\n", r.settledIn.Round(time.Millisecond))
	fmt.Fprintf(&b, "%s", sorted(r.counts))
	return b.String()
}

func sorted(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}
