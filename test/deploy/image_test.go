package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// built runs the build steps of a Dockerfile after its arguments, without docker. The folder src
// replaces /src, and a temporary folder, which it returns, replaces /out.
func built(t *testing.T, dockerfile, src string, args ...string) (out string, err error, printed string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	stage, _, _ := strings.Cut(string(text), "\nFROM alpine")
	out = t.TempDir()
	env := append(os.Environ(), "GOFLAGS=", "CGO_CFLAGS=")
	var steps []string
	for line := range strings.Lines(stage) {
		line = strings.TrimSpace(line)
		if value, ok := strings.CutPrefix(line, "ARG "); ok && strings.Contains(value, "=") {
			env = append(env, value)
		}
		if step, ok := strings.CutPrefix(line, "RUN "); ok && step != "go mod download" {
			steps = append(steps, strings.ReplaceAll(step, "/out/", out+"/"))
		}
	}
	if len(steps) < 3 {
		t.Fatalf("%s: got %d steps: %q", dockerfile, len(steps), steps)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", strings.Join(steps, "\n"))
	cmd.Dir, cmd.Env = src, append(env, args...)
	all, err := cmd.CombinedOutput()
	return out, err, string(all)
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// TestImages verifies that the build steps of both Dockerfiles produce programs that report their
// version, and fail without one. "parley init --go" creates the program of an author.
func TestImages(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Fatal("build steps of the Dockerfiles need Linux")
	}
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err, printed := built(t, "Dockerfile", repository); err == nil || !strings.Contains(printed, "VERSION is missing: add --build-arg VERSION=") {
		t.Errorf("without a version: got %v, %q, want an error that names the argument", err, printed)
	}
	out, err, printed := built(t, "Dockerfile", repository, "VERSION=v9.8.7-3-gabcdef0")
	if err != nil {
		t.Fatalf("build: %v\n%s", err, printed)
	}
	parley := filepath.Join(out, "parley")
	if got, want := run(t, out, parley, "version"), "parley v9.8.7-3-gabcdef0 ("; !strings.HasPrefix(got, want) {
		t.Errorf("version: got %q, want prefix %q", got, want)
	}

	desk := filepath.Join(t.TempDir(), "desk")
	run(t, out, parley, "init", "--go", desk)
	run(t, desk, "go", "mod", "edit", "-require", "github.com/parleyrun/parley@v0.0.0", "-replace", "github.com/parleyrun/parley="+repository)
	run(t, desk, "go", "mod", "tidy")
	if _, err, printed := built(t, "Dockerfile.program", desk); err == nil || !strings.Contains(printed, "VERSION is missing") {
		t.Errorf("program without a version: got %v, %q, want an error that names the argument", err, printed)
	}
	out, err, printed = built(t, "Dockerfile.program", desk, "VERSION=v7")
	if err != nil {
		t.Fatalf("build the program: %v\n%s", err, printed)
	}
	if got, want := run(t, out, filepath.Join(out, "program"), "version"), " v7 with parley "; !strings.Contains(got, want) {
		t.Errorf("version of the program: got %q, want %q in it", got, want)
	}
}
