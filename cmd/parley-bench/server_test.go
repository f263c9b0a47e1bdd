package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
)

func TestServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var r bench.Report
	table := measured(t, &r, nil, "--program", built(t).parley, "--quick", "--percent", "3", "--dir", dir)
	// The scenarios that stop in the middle of a reply have no count here.
	samples := map[string]int{
		"raw-put-1": 6, "raw-put-16": 6, "raw-put-64": 6, "raw-fsync": 6, "start": 1, "idle": 0, "rush": 60, "stored": 0, "admission-warm": 3, "admission-new": 3,
		"admission-64": 15, "admission-held": 30, "turns": 15, "first-delta": 1, "token-lag": 200, "readers": 600, "broadcast": -1,
		"turn-growth": 1, "snapshot-warm": 1, "updates-behind": 1, "snapshot-restart": 1, "kill": 1,
	}
	if len(samples) != len(bench.Server.Names()) || len(r.Scenarios) != len(samples) {
		t.Errorf("%d scenarios of %v, want %d", len(r.Scenarios), bench.Server.Names(), len(samples))
	}
	for _, s := range r.Scenarios {
		want, known := samples[s.Name]
		if want < 0 { // One sample for each frame of the reply.
			want = s.Samples
		}
		if !known || s.Samples != want || (s.Latency != nil) != (want > 0) || s.Error != "" || !strings.Contains(table, s.Name+" ") {
			t.Errorf("want %d samples: %+v", want, s)
		}
		own := !strings.HasPrefix(s.Name, "raw") && s.Name != "stored"
		if own && (s.Memory == nil || s.Memory.RSS <= 0) || !own && s.Memory != nil {
			t.Errorf("%s has memory %+v", s.Name, s.Memory)
		}
		if compared := strings.HasPrefix(s.Name, "admission") || s.Name == "snapshot-warm"; compared && s.ToRawPut <= 0 {
			t.Errorf("%s is not compared with a raw PUT", s.Name)
		}
		if s.Name == "turns" && (s.PerSecond <= 0 || s.ServerCPU == nil || s.GeneratorCPU == nil || s.ModelCPU == nil || len(s.Metrics) != 1) {
			t.Errorf("turns lack their costs: %+v", s)
		}
	}
	if r.Machine.CPUs < 1 || !strings.HasPrefix(r.Version, "parley ") || !r.Quick || r.Against != "" {
		t.Errorf("report %+v", r)
	}
	wantEmpty(t, dir)
}

// The server runs already, with a model that is not the bench's.
func TestAgainst(t *testing.T) {
	t.Parallel()
	p, err := proc.ReaperOf(t).Start(proc.Command{Args: []string{built(t).parley, "serve", "--quiet", "--config", echoConfig(t, dirBucket(t))}})
	if err != nil {
		t.Fatal(err)
	}
	base, err := p.Await(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	measured(t, &r, nil, "--quick", "--percent", "1", "--against", base, "--only", "admission-warm,admission-new,turns,first-delta,readers,kill")
	var names []string
	for _, s := range r.Scenarios {
		names = append(names, s.Name)
		if s.Latency == nil || s.Memory != nil || s.ServerCPU != nil || s.ModelCPU != nil || s.GeneratorCPU == nil || s.ToRawPut != 0 {
			t.Errorf("against a foreign server: %+v", s)
		}
	}
	// Readers need the bench's model, and a foreign server is never killed.
	if d := cmp.Diff([]string{"admission-warm", "admission-new", "turns", "first-delta"}, names); d != "" {
		t.Errorf("scenarios (-want +got):\n%s", d)
	}
	if r.Against != base || r.Version != "" {
		t.Errorf("report %+v", r)
	}
}

func TestServerMistakes(t *testing.T) {
	gone := "http://" + noderun.Refusing(t) + "/agents/x"
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown scenario":  {[]string{"--program", built(t).parley, "--only", "turn"}, `unknown scenario "turn"`},
		"an argument":       {[]string{"turns"}, "unknown command"},
		"unknown flag":      {[]string{"--x"}, "parley-bench --help lists the flags"},
		"no such folder":    {[]string{"--program", built(t).parley, "--profiles", filepath.Join(t.TempDir(), "none")}, "find the folder for profiles"},
		"no such program":   {[]string{"--program", filepath.Join(t.TempDir(), "none")}, "find the program to measure"},
		"two servers":       {[]string{"--program", built(t).parley, "--against", gone}, "[against program]"},
		"token is missing":  {[]string{"--against", gone, "--token-env", "TEST_PARLEY_NONE"}, "--token-env TEST_PARLEY_NONE: the variable is not set"},
		"no listener":       {[]string{"--against", gone, "--only", "turns"}, "1 of 1 scenarios failed"},
		"no place":          {[]string{"--against", gone, "--only", "turns", "--json", filepath.Join(t.TempDir(), "none", "x")}, "write the report"},
		"no database":       {[]string{"--program", built(t).parley, "--only", "raw-put-1", "--clickhouse", "127.0.0.1:1"}, "--clickhouse: connect to clickhouse at 127.0.0.1:1"},
		"port of the model": {[]string{"model", "--listen", "127.0.0.1:x"}, "set another address with --listen"},
	} {
		code, _, errOut := output(t, tt.args...)
		if code != 1 || !strings.HasPrefix(errOut, "parley-bench: ") && name != "no listener" && name != "no place" || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit 1 and %q", name, code, errOut, tt.want)
		}
	}
}

// wantProfiles checks that a folder holds exactly the profiles of the named scenarios.
func wantProfiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	var want, got []string
	for _, name := range names {
		want = append(want, name+".allocs.pprof", name+".before.pprof", name+".cpu.pprof")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got = append(got, f.Name())
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
			t.Errorf("%s is not a profile: %v, %d bytes", f.Name(), err, len(b))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// The server is profiled in the scenarios that measure its costs. The source of a broadcast is not
// such a scenario.
func TestServerProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var r bench.Report
	measured(t, &r, nil, "--program", built(t).parley, "--quick", "--percent", "1", "--only", "turns,broadcast", "--dir", t.TempDir(), "--profiles", dir)
	wantProfiles(t, dir, "turns")
}
