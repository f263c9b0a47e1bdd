package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley/internal/bench"
)

// readReport reads what --json wrote.
func readReport(t *testing.T, file string) bench.Report {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestBench runs every scenario with tiny counts, over real processes.
func TestBench(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "report.json")
	cmd := exec.CommandContext(t.Context(), program, "bench", "--quick", "--percent", "3", "--dir", dir, "--json", file)
	var progress strings.Builder
	cmd.Stderr = &progress
	table, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench: %v\n%s%s", err, table, progress.String())
	}
	r := readReport(t, file)
	// What stands still in the middle of a reply needs no count of its own here.
	samples := map[string]int{
		"raw-put-1": 6, "raw-put-16": 6, "raw-put-64": 6, "raw-fsync": 6, "start": 1, "idle": 0, "stored": 0, "admission-warm": 3, "admission-new": 3,
		"admission-64": 15, "admission-held": 30, "turns": 15, "first-delta": 1, "token-lag": 200, "readers": 600, "broadcast": -1,
		"turn-growth": 1, "snapshot-warm": 1, "updates-behind": 1, "snapshot-restart": 1, "kill": 1,
	}
	if len(samples) != len(bench.Names()) || len(r.Scenarios) != len(samples) {
		t.Errorf("%d scenarios of %v, want %d", len(r.Scenarios), bench.Names(), len(samples))
	}
	for _, s := range r.Scenarios {
		want, known := samples[s.Name]
		if want < 0 { // As many frames as the server made of the reply.
			want = s.Samples
		}
		if !known || s.Samples != want || (s.Latency != nil) != (want > 0) || s.Error != "" || !strings.Contains(string(table), s.Name+" ") {
			t.Errorf("want %d samples: %+v", want, s)
		}
		own := !strings.HasPrefix(s.Name, "raw") && s.Name != "stored"
		if own && (s.Memory == nil || s.Memory.RSS <= 0) || !own && s.Memory != nil {
			t.Errorf("%s has memory %+v", s.Name, s.Memory)
		}
		if compared := strings.HasPrefix(s.Name, "admission") || s.Name == "snapshot-warm"; compared && s.ToRawPut <= 0 {
			t.Errorf("%s is not compared with a raw PUT", s.Name)
		}
		if s.Name == "turns" && (s.PerSecond <= 0 || s.ServerCPU == nil || s.GeneratorCPU == nil || s.ModelCPU == nil || len(s.Figures) != 1) {
			t.Errorf("turns lack what they cost: %+v", s)
		}
	}
	if r.Machine.CPUs < 1 || !strings.HasPrefix(r.Version, "parley ") || !r.Quick || r.Against != "" {
		t.Errorf("report %+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestBenchAgainst measures a server that is there already, with a model that is
// not the bench's own.
func TestBenchAgainst(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "report.json")
	n := startProgram(t, "serve", "--quiet", "--config", echoConfig(t, dir, dirBucket(dir)))
	code, table, errOut := output(t, "bench", "--quick", "--percent", "1", "--against", n.base, "--json", file,
		"--only", "admission-warm,admission-new,turns,first-delta,readers,kill")
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, table, errOut)
	}
	r := readReport(t, file)
	var names []string
	for _, s := range r.Scenarios {
		names = append(names, s.Name)
		if s.Latency == nil || s.Memory != nil || s.ServerCPU != nil || s.ModelCPU != nil || s.GeneratorCPU == nil || s.ToRawPut != 0 {
			t.Errorf("against a foreign server: %+v", s)
		}
	}
	// Readers need the bench's model, and nobody kills a foreign server.
	if d := cmp.Diff([]string{"admission-warm", "admission-new", "turns", "first-delta"}, names); d != "" {
		t.Errorf("scenarios (-want +got):\n%s", d)
	}
	if r.Against != n.base || r.Version != "" {
		t.Errorf("report %+v", r)
	}
}

func TestBenchMistakes(t *testing.T) {
	gone := "http://" + refusing(t) + "/agents/x"
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown scenario": {[]string{"--only", "turn"}, `no scenario is named "turn"`},
		"an argument":      {[]string{"turns"}, "unknown command"},
		"no such folder":   {[]string{"--profiles", filepath.Join(t.TempDir(), "none")}, "find the folder for profiles"},
		"token is missing": {[]string{"--against", gone, "--token-env", "TEST_PARLEY_NONE"}, "--token-env TEST_PARLEY_NONE: the variable is not set"},
		"nobody answers":   {[]string{"--against", gone, "--only", "turns"}, "1 of 1 scenarios failed"},
		"no place":         {[]string{"--against", gone, "--only", "turns", "--json", filepath.Join(t.TempDir(), "none", "x")}, "write the report"},
	} {
		code, _, errOut := output(t, append([]string{"bench"}, tt.args...)...)
		if code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: exit %d, %q; want exit 1 and %q", name, code, errOut, tt.want)
		}
	}
}

// tell starts a child and writes it a request after each line it says, and the end
// of its input after the last one. It returns what the child said.
func tell(t *testing.T, args []string, requests ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said = append(said, lines.Text()); len(said) > len(requests) {
			in.Close()
		} else if _, err := io.WriteString(in, requests[len(said)-1]+"\n"); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	return said
}

// TestBenchChildren: children say where they are, do what they are told, and end
// when nobody is there any more to tell them.
func TestBenchChildren(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"model": {benchModelName, "--child"},
		"serve": {benchServeName, "--config", echoConfig(t, dir, dirBucket(dir))},
	} {
		said := tell(t, args, "what?\n"+bench.FreeRequest)
		if len(said) != 2 || !strings.HasPrefix(said[0], "http://127.0.0.1:") || said[1] != bench.FreedAnswer {
			t.Errorf("%s said %q", name, said)
		}
	}
}

// TestBenchChildProfiles: a child profiles one stretch of time after the other, says
// what is wrong with a request, and obeys the next one.
func TestBenchChildProfiles(t *testing.T) {
	dir := t.TempDir()
	request := func(name string) string { return bench.ProfileRequest + " " + filepath.Join(dir, name) }
	said := tell(t, []string{benchModelName, "--child"},
		bench.ProfiledRequest, request("none/a"), request("first one"), request("b"), bench.ProfiledRequest, bench.ProfiledRequest,
		request("second"), bench.ProfiledRequest)
	want := []string{
		"http://127.0.0.1:", "no profile is under way", "write profile: open ", bench.ProfilingAnswer, "a profile is under way",
		bench.ProfiledAnswer, "no profile is under way", bench.ProfilingAnswer, bench.ProfiledAnswer,
	}
	if len(said) != len(want) {
		t.Fatalf("said %q, want %q", said, want)
	}
	for i := range want {
		if !strings.HasPrefix(said[i], want[i]) {
			t.Errorf("line %d is %q, want %q", i, said[i], want[i])
		}
	}
	wantProfiles(t, dir, "first one", "second")
}

// wantProfiles checks that a folder holds the profiles of scenarios, and nothing else.
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
			t.Errorf("%s is no profile: %v, %d bytes", f.Name(), err, len(b))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// TestBenchProfiles: the server is profiled where its costs are measured. The source
// of a broadcast is none of that.
func TestBenchProfiles(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, "bench", "--quick", "--percent", "1", "--only", "turns,broadcast", "--dir", t.TempDir(), "--profiles", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("bench: %v\n%s", err, out)
	}
	wantProfiles(t, dir, "turns")
}

// TestBenchChildrenAreHidden: they are nothing a user starts by chance.
func TestBenchChildrenAreHidden(t *testing.T) {
	_, out, _ := output(t, "--help")
	listed := strings.Fields(out)
	if !slices.Contains(listed, "bench") || slices.Contains(listed, benchModelName) || slices.Contains(listed, benchServeName) {
		t.Errorf("help:\n%s", out)
	}
}

// TestBenchWithoutDatabase names a ClickHouse that is away: figures would be those of a
// server that sends nothing.
func TestBenchWithoutDatabase(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), program, "bench", "--quick", "--percent", "1", "--only", "raw-put-1", "--clickhouse", "127.0.0.1:1").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "bench: --clickhouse: connect to clickhouse at 127.0.0.1:1") {
		t.Errorf("ends with %v and says %s", err, out)
	}
}
