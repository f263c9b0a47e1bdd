package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/s3server"
	"github.com/parleyrun/parley/internal/sample"
	"github.com/parleyrun/parley/storage"
)

// systemTimeout bounds every wait of a test. Only failing tests reach it.
const systemTimeout = 5 * time.Minute

// programs are this program, with the race detector if the test has it, and the measured program,
// without it.
type programs struct{ bench, parley string }

var build = sync.OnceValues(func() (p programs, err error) {
	if p.bench, err = proc.Build(context.Background(), "cmd/parley-bench", sample.Raced()); err == nil {
		p.parley, err = proc.Build(context.Background(), "cmd/parley", false)
	}
	return p, err
})

// built builds the programs once. The test cache of the go command does not see the files that
// TestMain reads.
func built(t *testing.T) programs {
	t.Helper()
	p, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func output(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), systemTimeout)
	defer cancel()
	var out, errOut bytes.Buffer
	code = run(ctx, args, &out, &errOut)
	if ctx.Err() != nil {
		t.Fatalf("%v did not return in time: %s%s", args, out.String(), errOut.String())
	}
	return code, out.String(), errOut.String()
}

// measured runs the program as a process with --json and extra environment variables, decodes the JSON
// into v, and returns the table. The run must succeed.
func measured(t *testing.T, v any, env []string, args ...string) (table string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	at := len(args)
	if i := slices.Index(args, "--"); i >= 0 {
		at = i
	}
	args = slices.Insert(args, at, "--json", file)
	cmd := exec.CommandContext(t.Context(), built(t).bench, args...)
	cmd.Env = append(os.Environ(), env...)
	var progress strings.Builder
	cmd.Stderr = &progress
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, progress.String())
	}
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// metric returns the metric of a row by name, 0 if it has none.
func metric(s bench.Scenario, name string) float64 {
	for _, f := range s.Metrics {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// echoConfig writes a configuration with a free port and one extra line.
func echoConfig(t *testing.T, bucket string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "parley.yaml")
	text := bucket + "\nlisten: 127.0.0.1:0\nagents: {echo: {mounts: [/agents/echo], model: demo/parrot}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// endpoint returns a bucket of a server, a configuration with a prefix in it, and the environment that
// the configuration needs. It checks at the end that no objects were added.
func endpoint(t *testing.T) (place, file string, env []string) {
	t.Helper()
	server := s3server.Versitygw(t)
	at := config.Bucket{
		Endpoint: server.Endpoint, Name: server.Bucket(t), Region: server.Region, AccessKey: server.AccessKey, SecretKey: server.SecretKey,
	}
	bucket, err := at.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Create(t.Context(), "some/where/bench", storage.Bytes([]byte("kept"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := bucket.List(context.Background(), storage.ListQuery{})
		if d := cmp.Diff([]storage.ListedKey{{Key: "some/where/bench", Size: 4}}, left.Keys); err != nil || d != "" {
			t.Errorf("objects in the bucket: %v (-want +got)\n%s", err, d)
		}
	})
	at.Prefix = "some/where"
	file = echoConfig(t, fmt.Sprintf(
		"bucket: {endpoint: %q, name: %s, region: %s, prefix: %s, secure: false, accessKeyEnv: TEST_PARLEY_ACCESS_KEY, secretKeyEnv: TEST_PARLEY_SECRET_KEY}",
		at.Endpoint, at.Name, at.Region, at.Prefix))
	return at.Place(), file, []string{"TEST_PARLEY_ACCESS_KEY=" + at.AccessKey, "TEST_PARLEY_SECRET_KEY=" + at.SecretKey}
}

func dirBucket(t *testing.T) string { return fmt.Sprintf("bucket: {dir: %q}", t.TempDir()) }

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

// The program is the named one, or the one in the folder of this program, or on PATH, and its version
// must be that of a parley.
func TestFind(t *testing.T) {
	t.Setenv("PATH", "")
	err := find(t.Context(), "", &bench.Options{})
	if err == nil || !strings.Contains(err.Error(), "run make build, or set --program") {
		t.Errorf("find without a program: %v", err)
	}
	if err := find(t.Context(), filepath.Join(t.TempDir(), "none"), &bench.Options{}); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("find a missing file: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho other 1.2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := find(t.Context(), other, &bench.Options{}); err == nil || !strings.Contains(err.Error(), `is not a parley program: its version is "other 1.2"`) {
		t.Errorf("find another program: %v", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(built(t).parley, filepath.Join(dir, "parley")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	var o bench.Options
	err = find(t.Context(), "", &o)
	if err != nil || o.Program != filepath.Join(dir, "parley") || !strings.HasPrefix(o.Version, "parley ") {
		t.Errorf("on PATH: %+v, %v", o, err)
	}
}

func TestChildren(t *testing.T) {
	t.Parallel()
	r := proc.ReaperOf(t)
	for _, args := range [][]string{{bench.ModelCommand}, {bench.BucketCommand, "--dir", t.TempDir()}} {
		p, err := r.Start(proc.Command{Args: append([]string{built(t).bench}, args...), Log: filepath.Join(t.TempDir(), "log")})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), systemTimeout)
		defer cancel()
		if line, err := p.Await(ctx); err != nil || !strings.HasPrefix(line, "http://127.0.0.1:") {
			t.Errorf("%v printed %q, %v\n%s", args, line, err, p.Printed())
		}
		if err := p.Stop(systemTimeout); err != nil {
			t.Errorf("%v: %v\n%s", args, err, p.Printed())
		}
	}
	_, out, _ := output(t, "--help")
	if !strings.Contains(out, "\n  model ") || strings.Contains(out, "\n  bucket ") {
		t.Errorf("help:\n%s", out)
	}
}

// Rows without metrics are an error, returned after all output is written.
func TestFailed(t *testing.T) {
	var out bytes.Buffer
	err := finish(&bench.Report{Scenarios: []bench.Scenario{{Name: "a"}, {Name: "b", Error: "gone"}}}, "", &out)
	if err == nil || err.Error() != "1 of 2 scenarios failed" || !strings.Contains(out.String(), "b failed: gone") {
		t.Errorf("finish: %v after %s", err, out.String())
	}
}
