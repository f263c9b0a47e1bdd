package bench_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/cmd/parley-bench/internal/bench"
)

func names(r *bench.Report) []string {
	var names []string
	for _, s := range r.Scenarios {
		names = append(names, s.Name)
	}
	return names
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    bench.Options
		want string
	}{
		{"unknown scenario", bench.Options{Only: []string{"turns", "turn"}}, `unknown scenario "turn": want one of raw-put-1, `},
		{"too much", bench.Options{Percent: 101}, "invalid percent 101"},
		{"less than nothing", bench.Options{Percent: -1}, "invalid percent -1"},
		{"model without a server", bench.Options{Model: "http://127.0.0.1:1"}, "without a server"},
		{"no scheme", bench.Options{Against: "127.0.0.1:1/x"}, "is not a URL"},
		{"other scheme", bench.Options{Against: "ftp://127.0.0.1/x"}, "is not a URL"},
		{"model is no URL", bench.Options{Against: "http://127.0.0.1:1/x", Model: "x"}, `"x" is not a URL`},
		{"token of two lines", bench.Options{Token: "a\nb"}, "line break"},
		{"no folder for profiles", bench.Options{Profiles: filepath.Join(t.TempDir(), "none")}, "find the folder for profiles"},
		{"a file for profiles", bench.Options{Profiles: "run_test.go"}, "is not a folder"},
		{"profiles of another's server", bench.Options{Against: "http://127.0.0.1:1/x", Profiles: t.TempDir()}, "foreign server"},
		{"no such folder", bench.Options{Dir: filepath.Join(t.TempDir(), "none")}, "make a folder for the data"},
	} {
		r, err := bench.Run(t.Context(), bench.Server, tt.o)
		if r != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v; want %q", tt.name, r, err, tt.want)
		}
	}
}

// Raw PUTs need no server; scenarios that need one are reported as failed.
func TestRunWithoutAServer(t *testing.T) {
	dir := t.TempDir()
	var progress strings.Builder
	r, err := bench.Run(t.Context(), bench.Server, bench.Options{
		Program: filepath.Join(dir, "none"), Self: filepath.Join(dir, "none"), Dir: dir,
		Quick: true, Percent: 10, Only: []string{"turns", "raw-put-16", "raw-fsync"}, Progress: &progress, Version: "v",
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"raw-put-1", "raw-put-16", "raw-fsync", "turns"}, names(r)); d != "" {
		t.Fatalf("scenarios (-want +got):\n%s", d)
	}
	for i, s := range r.Scenarios[:3] {
		l := s.Latency
		if s.Error != "" || s.Samples != 20 || l == nil || l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max || s.PerSecond <= 0 || s.ServerCPU != nil || s.GeneratorCPU == nil {
			t.Errorf("raw scenario %d: %+v, %+v", i, s, l)
		}
	}
	if s := r.Scenarios[3]; !strings.Contains(s.Error, "start model") || s.Latency != nil || s.Target == "" {
		t.Errorf("without a server: %+v", s)
	}
	if r.Failed() != 1 || r.Version != "v" || !r.Quick || r.Machine.CPUs < 1 || r.Machine.Go == "" {
		t.Errorf("report %+v", r)
	}
	if got := strings.Count(progress.String(), "\n"); got != 4 {
		t.Errorf("progress has %d lines:\n%s", got, progress.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

// A server that refuses everything fails the scenarios that ran. Scenarios that need its process do
// not run.
func TestRunAgainst(t *testing.T) {
	tokens := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case tokens <- r.Header.Get("Authorization"):
		default:
		}
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer server.Close()
	foreign := []string{"admission-warm", "admission-new", "admission-64", "turns", "first-delta", "snapshot-warm", "updates-behind"}
	for _, tt := range []struct {
		name, model string
		want        []string
	}{
		{"any model", "", foreign},
		{"own model", server.URL, []string{
			"admission-warm", "admission-new", "admission-64", "admission-held", "turns", "first-delta",
			"token-lag", "readers", "turn-growth", "snapshot-warm", "updates-behind",
		}},
	} {
		r, err := bench.Run(t.Context(), bench.Server, bench.Options{Against: server.URL + "/x/", Model: tt.model, Token: "t", Quick: true, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, names(r)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
		for _, s := range r.Scenarios {
			if !strings.Contains(s.Error, "answered 418") {
				t.Errorf("%s, %s: %q", tt.name, s.Name, s.Error)
			}
		}
	}
	if got := <-tokens; got != "Bearer t" {
		t.Errorf("the server got %q", got)
	}
}

// Scenarios not run are reported, and no process is started.
func TestRunIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := bench.Run(ctx, bench.Server, bench.Options{Program: "none", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(r); !slices.Equal(got, bench.Server.Names()) || r.Failed() != len(got) {
		t.Errorf("%d of %v failed", r.Failed(), got)
	}
	for _, s := range r.Scenarios {
		if s.Error != context.Canceled.Error() {
			t.Errorf("%s: %q", s.Name, s.Error)
		}
	}
}
