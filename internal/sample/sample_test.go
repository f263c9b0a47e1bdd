package sample_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/sample"
)

func TestOf(t *testing.T) {
	if _, err := os.Stat("testdata/mode/main.go"); err != nil { // Makes the file an input of the test cache.
		t.Fatal(err)
	}
	dir := t.TempDir()
	for flag, want := range map[string]string{"-race": "sample", "-race=false": "whole"} {
		file := filepath.Join(dir, want)
		if out, err := exec.CommandContext(t.Context(), "go", "build", flag, "-o", file, "./testdata/mode").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		out, err := exec.CommandContext(t.Context(), file).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("built with %s: got %q, %v; want %q", flag, got, err, want)
		}
	}
	if got, want := sample.Of(1, 2) == 2, sample.Raced() || testing.Short(); got != want {
		t.Errorf("sample used: got %v, want %v", got, want)
	}
}

// TestShort runs itself with the flag of go test -short.
func TestShort(t *testing.T) {
	if testing.Short() {
		if got := sample.Of("whole", "sample"); got != "sample" {
			t.Errorf("short run: got the %s", got)
		}
		return
	}
	if out, err := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShort$", sample.Short).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
