package bench_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/proc"
)

// run returns a report of three scenarios; turns takes p50 milliseconds and starting has rss bytes of
// memory.
func run(p50 float64, rss int64) *bench.Report {
	return &bench.Report{
		Machine: bench.Machine{CPUs: 2, OS: "linux", Arch: "amd64", Go: "go1.26"}, Quick: true,
		Scenarios: []bench.Scenario{
			{Name: "start", Samples: 2, Latency: &bench.Latency{P50: 50, P99: 60 + p50}, Memory: &proc.Memory{RSS: rss},
				Metrics: []bench.Metric{{Name: "readers", Value: 500}, {Name: "each", Value: p50 / 2, Unit: "kB"}}},
			{Name: "turns", Samples: 500, Latency: &bench.Latency{P50: p50, P99: 20}, PerSecond: 1000 / p50, ServerCPU: new(0.25)},
		},
	}
}

func failing(description string) *bench.Report {
	r := run(1, 1)
	for i := range r.Scenarios {
		r.Scenarios[i] = bench.Scenario{Name: r.Scenarios[i].Name, Error: description}
	}
	return r
}

func sides(before, after []*bench.Report) *bench.Comparison {
	return &bench.Comparison{
		Old: bench.Side{Program: "./parley-1", Version: "parley v1", Reports: before},
		New: bench.Side{Program: "./parley-2", Version: "parley v2", Reports: after},
	}
}

func TestComparison(t *testing.T) {
	broken := sides([]*bench.Report{run(10, 50e6), failing("gone")}, []*bench.Report{failing("away")})
	broken.Errors = []string{"round 1, new: turns failed: away", "round 2, old: turns failed: gone"}
	for name, c := range map[string]*bench.Comparison{
		"apart":   sides([]*bench.Report{run(10, 50e6), run(14, 52e6), run(11, 51e6)}, []*bench.Report{run(8, 53e6), run(9.5, 58e6), run(9, 52e6)}),
		"even":    sides([]*bench.Report{run(10, 50e6), run(14, 50e6)}, []*bench.Report{run(12, 60e6), run(10, 61e6)}),
		"one run": sides([]*bench.Report{run(10, 50e6)}, []*bench.Report{run(5, 25e6)}),
		"broken":  broken,
	} {
		var table bytes.Buffer
		if err := c.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		golden(t, "compare-"+strings.ReplaceAll(name, " ", "-")+".txt", table.Bytes())
	}
}

// The programs do not start: the order alternates, and errors end nothing.
func TestCompareInTurns(t *testing.T) {
	var progress strings.Builder
	none := filepath.Join(t.TempDir(), "none")
	o := bench.Options{Self: none, Dir: t.TempDir(), Quick: true, Percent: 1, Only: []string{"turns"}, Progress: &progress}
	c, err := bench.Compare(t.Context(), o, bench.Side{Program: "a", Version: "1"}, bench.Side{Program: "b", Version: "2"}, 3)
	if err != nil {
		t.Fatal(err)
	}
	var begun []string
	for line := range strings.Lines(progress.String()) {
		if strings.HasPrefix(line, "round ") {
			begun = append(begun, strings.TrimSpace(line))
		}
	}
	want := []string{"round 1, old: a", "round 1, new: b", "round 2, new: b", "round 2, old: a", "round 3, old: a", "round 3, new: b"}
	if d := cmp.Diff(want, begun); d != "" {
		t.Errorf("runs (-want +got):\n%s", d)
	}
	if len(c.Old.Reports) != 3 || len(c.New.Reports) != 3 || len(c.Errors) != 6 || !strings.HasPrefix(c.Errors[0], "round 1, old: turns failed: start model: ") {
		t.Errorf("%d and %d reports, errors %q", len(c.Old.Reports), len(c.New.Reports), c.Errors)
	}
	for i, r := range c.New.Reports {
		if r.Version != "2" {
			t.Errorf("run %d of the new program has version %q", i, r.Version)
		}
	}
}

func TestCompareEnds(t *testing.T) {
	if c, err := bench.Compare(t.Context(), bench.Options{Only: []string{"turn"}}, bench.Side{}, bench.Side{}, 1); c != nil || err == nil {
		t.Errorf("wrong options: %v, %v", c, err)
	}
	if c, err := bench.Compare(t.Context(), bench.Options{}, bench.Side{}, bench.Side{}, 0); c != nil || err == nil {
		t.Errorf("no rounds: %v, %v", c, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := bench.Compare(ctx, bench.Options{Dir: t.TempDir()}, bench.Side{}, bench.Side{}, 2)
	if err != nil || len(c.Old.Reports) != 1 || len(c.Errors) != 1 || !strings.Contains(c.Errors[0], "context canceled") {
		t.Errorf("cancelled: %+v, %v", c, err)
	}
}
