package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/cmd/parley/internal/bench"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/storage"
)

// benchCluster runs "parley bench cluster" with tiny counts and returns its report, in
// which nothing has failed.
func benchCluster(t *testing.T, args ...string) bench.Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"bench", "cluster", "--quick", "--json", file}, args...)...)
	var progress strings.Builder
	cmd.Stderr = &progress
	table, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench cluster: %v\n%s%s", err, table, progress.String())
	}
	r := readReport(t, file)
	if !r.Quick || r.Machine.CPUs < 1 || !strings.HasPrefix(r.Version, "parley ") || !strings.Contains(string(table), ", on "+r.Bucket) {
		t.Errorf("report %+v\n%s", r, table)
	}
	return r
}

// TestBenchCluster runs scenarios with tiny counts, over real processes. How long what
// takes decides nothing here.
func TestBenchCluster(t *testing.T) {
	dir, logs := t.TempDir(), t.TempDir()
	r := benchCluster(t, "--percent", "10", "--dir", dir, "--logs", logs,
		"--only", "cluster-failover,cluster-rolling,cluster-admission,cluster-readers")
	if len(r.Scenarios) != 4 || !strings.Contains(r.Bucket, "a folder, served over HTTP") {
		t.Fatalf("report %+v", r)
	}
	figures := map[string][]string{
		"cluster-failover":  {"kills", "requests", "acknowledged"},
		"cluster-rolling":   {"longest leave", "requests", "acknowledged"},
		"cluster-admission": {"p50 through the owner", "ratio"},
		"cluster-readers":   {"readers at each node", "batches"},
	}
	for _, s := range r.Scenarios {
		// A kill may meet none of so few turns.
		if none := s.Name == "cluster-failover" && figure(s, "turns interrupted") == 0; s.Error != "" || s.Target == "" || (s.Latency == nil) != none {
			t.Errorf("row lacks figures: %+v", s)
		}
		for _, want := range figures[s.Name] {
			if figure(s, want) <= 0 {
				t.Errorf("row lacks %q: %+v", want, s)
			}
		}
		for _, none := range []string{"lost", "twice", "turns lost"} {
			if n := figure(s, none); n != 0 {
				t.Errorf("%s: %s is %g", s.Name, none, n)
			}
		}
	}
	if all := figure(r.Scenarios[0], "turns interrupted") + figure(r.Scenarios[0], "others"); all != 3 {
		t.Errorf("%g turns of 3", all)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if files, err := os.ReadDir(logs); err != nil || len(files) != 3+3+2+2 {
		t.Errorf("logs: %v, %v", files, err)
	}
}

// TestBenchClusterAtEndpoint: nodes get the keys of a bucket, what is there already
// stays, and nothing is added.
func TestBenchClusterAtEndpoint(t *testing.T) {
	server := s3server.Versitygw(t)
	t.Setenv("TEST_PARLEY_ACCESS_KEY", server.AccessKey)
	t.Setenv("TEST_PARLEY_SECRET_KEY", server.SecretKey)
	at := config.Bucket{
		Endpoint: server.Endpoint, Name: server.Bucket(t), Region: server.Region,
		AccessKey: server.AccessKey, SecretKey: server.SecretKey,
	}
	bucket, err := at.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Create(t.Context(), "some/where/bench", storage.Bytes([]byte("kept"))); err != nil {
		t.Fatal(err)
	}
	at.Prefix = "some/where"
	r := benchCluster(t, "--percent", "2", "--only", "cluster-admission", "--config", echoConfig(t, t.TempDir(), fmt.Sprintf(
		"bucket: {endpoint: %q, name: %s, region: %s, prefix: %s, secure: false, accessKeyEnv: TEST_PARLEY_ACCESS_KEY, secretKeyEnv: TEST_PARLEY_SECRET_KEY}",
		at.Endpoint, at.Name, at.Region, at.Prefix)))
	if want := at.Place(); r.Bucket != want || len(r.Scenarios) != 1 || r.Scenarios[0].Samples != 2 {
		t.Errorf("measured %+v, want one scenario at %q", r, want)
	}
	if left := keys(t, bucket, ""); len(left) != 1 || left[0] != "some/where/bench" {
		t.Errorf("left in the bucket: %q", left)
	}
}

func TestBenchClusterMistakes(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown scenario": {[]string{"--only", "turns"}, `no scenario of a cluster is named "turns"`},
		"an argument":      {[]string{"turns"}, "unknown command"},
		"unknown flag":     {[]string{"--against", "x"}, "parley bench cluster --help lists the flags"},
		"no such folder":   {[]string{"--dir", none}, "make a folder for the data"},
		"no logs":          {[]string{"--logs", none}, "find the folder for logs"},
		"a folder":         {[]string{"--config", echoConfig(t, dir, dirBucket(dir))}, "set bucket.endpoint"},
		"nobody answers":   {[]string{"--config", echoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {endpoint: %q, name: nowhere, secure: false}", refusing(t)))}, "check bucket.endpoint"},
	} {
		code, _, errOut := output(t, append([]string{"bench", "cluster"}, tt.args...)...)
		if code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit 1 and %q", name, code, errOut, tt.want)
		}
	}
	_, out, _ := output(t, "bench", "--help")
	if !strings.Contains(out, "\n  cluster ") || strings.Contains(out, "\n  bucket ") {
		t.Errorf("help:\n%s", out)
	}
}
