package bench_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/proc"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// sample returns a report with every kind of cell: numbers of all sizes, and empty ones.
func sample() *bench.Report {
	return &bench.Report{
		Machine: bench.Machine{CPUs: 2, Model: "Some CPU", OS: "linux", Arch: "amd64", Go: "go1.26"},
		Version: "parley v1.2.3", Against: "http://127.0.0.1:1/x", Quick: true,
		Scenarios: []bench.Scenario{
			{Name: "all", Description: "everything", Target: "p50 ≤ 1 ms", Samples: 1000, Latency: &bench.Latency{P50: 0.12345, P90: 1.5, P99: 99.96, Max: 1234.5},
				ToRawPut: 2.5, Seconds: 3, PerSecond: 8123.4, ServerCPU: new(0.01), GeneratorCPU: new(0.5), ModelCPU: new(12.345), Memory: &proc.Memory{RSS: 41_900_000, Peak: 50_000_000, Anonymous: 9_000_000},
				Metrics: []bench.Metric{{Name: "readers", Value: 500}, {Name: "growth", Value: 1.25, Unit: "×"}}},
			{Name: "few", Description: "figures <alone>", Metrics: []bench.Metric{{Name: "each", Value: -0.5, Unit: "kB"}}},
			{Name: "idle CPU", Description: "nothing was used", ServerCPU: new(0.0)},
			{Name: "broken", Description: "no figures", Target: "≤ 2 s", Error: "read stream: it is gone"},
		},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(name, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func TestReport(t *testing.T) {
	var table, text bytes.Buffer
	r := sample()
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if err := bench.WriteJSON(&text, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", table.Bytes())
	golden(t, "report.json", text.Bytes())
	if got := r.Failed(); got != 1 {
		t.Errorf("%d failed, want 1", got)
	}
	if got := (&bench.Report{}).Failed(); got != 0 {
		t.Errorf("nothing ran and %d failed", got)
	}
}
