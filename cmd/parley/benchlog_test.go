package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley/internal/bench"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
)

// benchLog runs "parley bench log" with tiny counts and returns its report, in which
// every row is whole.
func benchLog(t *testing.T, args ...string) bench.Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"bench", "log", "--quick", "--percent", "1", "--json", file}, args...)...)
	var progress strings.Builder
	cmd.Stderr = &progress
	table, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench log: %v\n%s%s", err, table, progress.String())
	}
	if strings.Contains(string(table), "RSS") {
		t.Errorf("table has columns without figures:\n%s", table)
	}
	r := readReport(t, file)
	var names []string
	for _, s := range r.Scenarios {
		names = append(names, s.Name)
		if s.Error != "" || s.Samples < 1 || s.Latency == nil || s.Latency.P50 <= 0 || !strings.Contains(string(table), s.Name+" ") {
			t.Errorf("row lacks figures: %+v\n%s", s, table)
		}
		alone := strings.HasSuffix(s.Name, "k")
		if (s.PerSecond > 0) == alone || (s.Seconds > 0) == alone || (s.Target == "") != strings.HasPrefix(s.Name, "raw") {
			t.Errorf("row has another rate or target: %+v", s)
		}
		if (s.ToRawPut > 0) != (s.Name == "append-1k" || s.Name == "append-8k") {
			t.Errorf("row has %g × raw PUT: %+v", s.ToRawPut, s)
		}
		figures := map[string][]string{"raw-1k": {"object"}, "raw-8k": {"object"}, "raw-64": {"object"}, "append-64": {"rate to raw PUT"}, "stream": {"durable", "batch"}}
		for _, want := range figures[s.Name] {
			if figure(s, want) <= 0 {
				t.Errorf("row lacks %q: %+v", want, s)
			}
		}
	}
	if d := cmp.Diff(bench.LogNames(), names); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if !r.Quick || r.Machine.CPUs < 1 || !strings.HasPrefix(r.Version, "parley ") {
		t.Errorf("report %+v", r)
	}
	return r
}

// figure returns a figure of a row, 0 if it has none of that name.
func figure(s bench.Scenario, name string) float64 {
	for _, f := range s.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

func TestBenchLog(t *testing.T) {
	dir := t.TempDir()
	r := benchLog(t, "--dir", dir)
	if r.Bucket != "a folder" {
		t.Errorf("measured %q", r.Bucket)
	}
	// The names of the rows say how many bytes and writers there are.
	for _, s := range r.Scenarios {
		if n := figure(s, "object"); n > 8<<10+400 {
			t.Errorf("%s stores objects of %g bytes", s.Name, n)
		}
		if strings.HasSuffix(s.Name, "-64") && s.Samples < 64 {
			t.Errorf("%s has %d samples of 64 writers", s.Name, s.Samples)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBenchLogAtEndpoint: what is in the bucket already stays, and nothing is added.
func TestBenchLogAtEndpoint(t *testing.T) {
	server := s3server.Versitygw(t)
	t.Setenv("TEST_PARLEY_ACCESS_KEY", server.AccessKey)
	t.Setenv("TEST_PARLEY_SECRET_KEY", server.SecretKey)
	at := config.Bucket{
		Endpoint: server.Endpoint, Name: server.Bucket(t), Region: server.Region, Prefix: "some/where",
		AccessKey: server.AccessKey, SecretKey: server.SecretKey,
	}
	bucket, err := at.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Create(t.Context(), "bench", storage.Bytes([]byte("kept"))); err != nil {
		t.Fatal(err)
	}
	r := benchLog(t, "--config", echoConfig(t, t.TempDir(), fmt.Sprintf(
		"bucket: {endpoint: %q, name: %s, region: %s, prefix: %s, secure: false, accessKeyEnv: TEST_PARLEY_ACCESS_KEY, secretKeyEnv: TEST_PARLEY_SECRET_KEY}",
		at.Endpoint, at.Name, at.Region, at.Prefix)))
	if want := at.Place(); r.Bucket != want {
		t.Errorf("measured %q, want %q", r.Bucket, want)
	}
	at.Prefix = ""
	if bucket, err = at.Open(); err != nil {
		t.Fatal(err)
	}
	left, err := bucket.List(t.Context(), storage.ListQuery{})
	if d := cmp.Diff([]storage.ListedKey{{Key: "some/where/bench", Size: 4}}, left.Keys); err != nil || d != "" {
		t.Errorf("left in the bucket: %v (-want +got)\n%s", err, d)
	}
}

func TestBenchLogMistakes(t *testing.T) {
	dir := t.TempDir()
	folder := echoConfig(t, dir, dirBucket(dir))
	gone := echoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: nowhere, secure: false}", refusing(t)))
	none := filepath.Join(dir, "none")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"an argument":          {[]string{"1k"}, "unknown command"},
		"unknown flag":         {[]string{"--only", "stream"}, "parley bench log --help lists the flags"},
		"no such folder":       {[]string{"--dir", none}, "make a folder for the data"},
		"two places":           {[]string{"--dir", dir, "--config", folder}, "[dir config]"},
		"no such file":         {[]string{"--config", none}, none},
		"a folder":             {[]string{"--config", folder}, "measure its disk with --dir, or set bucket.endpoint"},
		"nobody answers":       {[]string{"--config", gone}, "check bucket.endpoint"},
		"more than everything": {[]string{"--percent", "101"}, "101 percent of the counts are not 1 to 100"},
		"no place":             {[]string{"--quick", "--percent", "1", "--json", filepath.Join(none, "x")}, "write the report"},
	} {
		code, _, errOut := output(t, append([]string{"bench", "log"}, tt.args...)...)
		if code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit 1 and %q", name, code, errOut, tt.want)
		}
	}
}

// TestBenchFailed: rows without figures are an error, after everything is written.
func TestBenchFailed(t *testing.T) {
	err := finish(&bench.Report{Scenarios: []bench.Scenario{{Name: "a"}, {Name: "b", Error: "gone"}}}, "bench log", "", io.Discard)
	if err == nil || err.Error() != "bench log: 1 of 2 scenarios failed" {
		t.Errorf("finish: %v", err)
	}
}
