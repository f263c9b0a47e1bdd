package sample_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/sample"
)

// TestOf builds a program in both ways: each knows which one it is.
func TestOf(t *testing.T) {
	t.Setenv("PARLEY_TEST_SAMPLES", "")
	dir := t.TempDir()
	for flag, want := range map[string]string{"-race": "sample", "-race=false": "whole"} {
		file := filepath.Join(dir, want)
		if out, err := exec.CommandContext(t.Context(), "go", "build", flag, "-o", file, "./testdata/says").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		out, err := exec.CommandContext(t.Context(), file).Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("built with %s it says %q, %v; want %q", flag, got, err, want)
		}
	}
	if got, want := sample.Of(1, 2) == 2, sample.Raced(); got != want {
		t.Errorf("a sample is taken: %v; the detector is there: %v", got, want)
	}
	t.Setenv("PARLEY_TEST_SAMPLES", "1")
	if got := sample.Of("whole", "sample"); got != "sample" {
		t.Errorf("told to be content with samples, got the %s", got)
	}
}
