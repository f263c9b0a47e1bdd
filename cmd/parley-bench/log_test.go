package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/noderun"
)

// logReport runs "parley-bench log" with tiny counts and returns its report. Every row must be
// complete.
func logReport(t *testing.T, env []string, args ...string) bench.Report {
	t.Helper()
	var r bench.Report
	table := measured(t, &r, env, append([]string{"log", "--quick", "--percent", "1"}, args...)...)
	if strings.Contains(table, "RSS") {
		t.Errorf("table has columns without metrics:\n%s", table)
	}
	var names []string
	for _, s := range r.Scenarios {
		names = append(names, s.Name)
		if s.Error != "" || s.Samples < 1 || s.Latency == nil || s.Latency.P50 <= 0 || !strings.Contains(table, s.Name+" ") {
			t.Errorf("row lacks metrics: %+v\n%s", s, table)
		}
		alone := strings.HasSuffix(s.Name, "k")
		if (s.PerSecond > 0) == alone || (s.Seconds > 0) == alone || (s.Target == "") != strings.HasPrefix(s.Name, "raw") {
			t.Errorf("row has another rate or target: %+v", s)
		}
		if (s.ToRawPut > 0) != (s.Name == "append-1k" || s.Name == "append-8k") {
			t.Errorf("row has %g × raw PUT: %+v", s.ToRawPut, s)
		}
		metrics := map[string][]string{"raw-1k": {"object"}, "raw-8k": {"object"}, "raw-64": {"object"}, "append-64": {"rate to raw PUT"}, "stream": {"durable", "batch"}}
		for _, want := range metrics[s.Name] {
			if metric(s, want) <= 0 {
				t.Errorf("row lacks %q: %+v", want, s)
			}
		}
	}
	if d := cmp.Diff(bench.Log.Names(), names); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if !r.Quick || r.Machine.CPUs < 1 || !strings.HasPrefix(r.Version, "parley-bench ") {
		t.Errorf("report %+v", r)
	}
	return r
}

func TestLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := logReport(t, nil, "--dir", dir)
	if r.Bucket != "a folder" {
		t.Errorf("measured %q", r.Bucket)
	}
	// The names of the rows contain the bytes and the writers.
	for _, s := range r.Scenarios {
		if n := metric(s, "object"); n > 8<<10+400 {
			t.Errorf("%s stores objects of %g bytes", s.Name, n)
		}
		if strings.HasSuffix(s.Name, "-64") && s.Samples < 64 {
			t.Errorf("%s has %d samples of 64 writers", s.Name, s.Samples)
		}
	}
	wantEmpty(t, dir)
}

// Existing objects of the bucket are kept, and none are added.
func TestLogAtEndpoint(t *testing.T) {
	t.Parallel()
	place, file, env := endpoint(t)
	if r := logReport(t, env, "--config", file); r.Bucket != place {
		t.Errorf("measured %q, want %q", r.Bucket, place)
	}
}

func TestLogMistakes(t *testing.T) {
	dir := t.TempDir()
	folder := echoConfig(t, dirBucket(t))
	gone := echoConfig(t, fmt.Sprintf("bucket: {endpoint: %q, name: nowhere, secure: false}", noderun.Refusing(t)))
	none := filepath.Join(dir, "none")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"an argument":          {[]string{"1k"}, "unknown command"},
		"unknown flag":         {[]string{"--only", "stream"}, "parley-bench log --help lists the flags"},
		"no such folder":       {[]string{"--dir", none}, "make a folder for the data"},
		"two places":           {[]string{"--dir", dir, "--config", folder}, "[dir config]"},
		"no such file":         {[]string{"--config", none}, none},
		"a folder":             {[]string{"--config", folder}, "set bucket.endpoint, or measure the disk with --dir"},
		"no listener":          {[]string{"--config", gone}, "check bucket.endpoint"},
		"more than everything": {[]string{"--percent", "101"}, "invalid percent 101"},
		"no place":             {[]string{"--quick", "--percent", "1", "--json", filepath.Join(none, "x")}, "write the report"},
	} {
		code, _, errOut := output(t, append([]string{"log"}, tt.args...)...)
		if code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit 1 and %q", name, code, errOut, tt.want)
		}
	}
}
