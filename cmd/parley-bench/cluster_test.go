package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/noderun"
)

// clusterReport runs "parley-bench cluster" with tiny counts and returns its report. Every scenario
// must succeed.
func clusterReport(t *testing.T, env []string, args ...string) bench.Report {
	t.Helper()
	var r bench.Report
	table := measured(t, &r, env, append([]string{"cluster", "--program", built(t).parley, "--quick"}, args...)...)
	if !r.Quick || r.Machine.CPUs < 1 || !strings.HasPrefix(r.Version, "parley ") || !strings.Contains(table, ", on "+r.Bucket) {
		t.Errorf("report %+v\n%s", r, table)
	}
	return r
}

// The counts are tiny, so no time is checked.
func TestCluster(t *testing.T) {
	t.Parallel()
	dir, logs := t.TempDir(), t.TempDir()
	r := clusterReport(t, nil, "--percent", "10", "--dir", dir, "--logs", logs,
		"--only", "cluster-failover,cluster-rolling,cluster-admission,cluster-readers")
	if len(r.Scenarios) != 4 || !strings.Contains(r.Bucket, "a folder, served over HTTP") {
		t.Fatalf("report %+v", r)
	}
	metrics := map[string][]string{
		"cluster-failover":  {"kills", "requests", "acknowledged"},
		"cluster-rolling":   {"longest leave", "requests", "acknowledged"},
		"cluster-admission": {"p50 through the owner", "ratio"},
		"cluster-readers":   {"readers at each node", "batches"},
	}
	for _, s := range r.Scenarios {
		// With so few turns a kill may interrupt none.
		if none := s.Name == "cluster-failover" && metric(s, "turns interrupted") == 0; s.Error != "" || s.Target == "" || (s.Latency == nil) != none {
			t.Errorf("row lacks metrics: %+v", s)
		}
		for _, want := range metrics[s.Name] {
			if metric(s, want) <= 0 {
				t.Errorf("row lacks %q: %+v", want, s)
			}
		}
		for _, none := range []string{"lost", "twice", "turns lost"} {
			if n := metric(s, none); n != 0 {
				t.Errorf("%s: %s is %g", s.Name, none, n)
			}
		}
	}
	if all := metric(r.Scenarios[0], "turns interrupted") + metric(r.Scenarios[0], "others"); all != 3 {
		t.Errorf("%g turns of 3", all)
	}
	wantEmpty(t, dir)
	if files, err := os.ReadDir(logs); err != nil || len(files) != 3+3+2+2 {
		t.Errorf("logs: %v, %v", files, err)
	}
}

// Nodes get the keys of a bucket. Existing objects are kept, and none are added.
func TestClusterAtEndpoint(t *testing.T) {
	t.Parallel()
	place, file, env := endpoint(t)
	r := clusterReport(t, env, "--percent", "2", "--only", "cluster-admission", "--config", file)
	if r.Bucket != place || len(r.Scenarios) != 1 || r.Scenarios[0].Samples != 2 {
		t.Errorf("measured %+v, want one scenario at %q", r, place)
	}
}

func TestClusterMistakes(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown scenario": {[]string{"--only", "turns"}, `unknown scenario of a cluster "turns"`},
		"an argument":      {[]string{"turns"}, "unknown command"},
		"unknown flag":     {[]string{"--against", "x"}, "parley-bench cluster --help lists the flags"},
		"no such folder":   {[]string{"--dir", none}, "make a folder for the data"},
		"no logs":          {[]string{"--logs", none}, "find the folder for logs"},
		"a folder":         {[]string{"--config", echoConfig(t, dirBucket(t))}, "set bucket.endpoint"},
		"no listener":      {[]string{"--config", echoConfig(t, fmt.Sprintf("bucket: {endpoint: %q, name: nowhere, secure: false}", noderun.Refusing(t)))}, "check bucket.endpoint"},
	} {
		code, _, errOut := output(t, append([]string{"cluster", "--program", built(t).parley}, tt.args...)...)
		if code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit 1 and %q", name, code, errOut, tt.want)
		}
	}
}
