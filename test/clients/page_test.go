package clients_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/waiting"
)

// startHello runs "dev" of examples/hello until the test ends, and returns the URL of its agent.
func startHello(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(proc.Program(t, "examples/hello", false), "dev", "--quiet", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	cmd.Env = environment()
	var log waiting.Log
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		late := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("hello dev: %v\n%s", err, tail(log.String()))
		}
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatalf("hello dev: got no output: %v\n%s", lines.Err(), tail(log.String()))
	}
	return strings.TrimSpace(lines.Text())
}

// pageFolder returns a folder with the page of examples/hello and the packages that it imports, as an
// author has them.
func pageFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	page, err := os.ReadFile("../../examples/hello/page.html")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "page.html"), page, 0o600); err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return folder
}
