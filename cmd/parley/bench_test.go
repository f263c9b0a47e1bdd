package main

import (
	"bufio"
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
		"raw-put-1": 6, "raw-put-16": 6, "raw-put-64": 6, "start": 1, "idle": 0, "stored": 0, "admission-warm": 3, "admission-new": 3,
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
		if s.Name == "turns" && (s.PerSecond <= 0 || s.ServerCPU == nil || len(s.Figures) != 1) {
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
		if s.Latency == nil || s.Memory != nil || s.ServerCPU != nil || s.ToRawPut != 0 {
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

// TestBenchChildren: children say where they are, do what they are told, and end
// when nobody is there any more to tell them.
func TestBenchChildren(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"model": {benchModelName, "--child"},
		"serve": {benchServeName, "--config", echoConfig(t, dir, dirBucket(dir))},
	} {
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
		lines := bufio.NewScanner(out)
		var said []string
		for lines.Scan() {
			said = append(said, lines.Text())
			switch len(said) {
			case 1:
				if _, err := io.WriteString(in, "what?\n"+bench.FreeRequest+"\n"); err != nil {
					t.Error(err)
				}
			case 2:
				in.Close()
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(said) != 2 || !strings.HasPrefix(said[0], "http://127.0.0.1:") || said[1] != bench.FreedAnswer {
			t.Errorf("%s said %q", name, said)
		}
	}
}

// TestBenchChildrenAreHidden: they are nothing a user starts by chance.
func TestBenchChildrenAreHidden(t *testing.T) {
	_, out, _ := output(t, "--help")
	listed := strings.Fields(out)
	if !slices.Contains(listed, "bench") || slices.Contains(listed, benchModelName) || slices.Contains(listed, benchServeName) {
		t.Errorf("help:\n%s", out)
	}
}
