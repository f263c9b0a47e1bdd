package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// helperEnv makes this binary act as another process: "open", "exit" or "crash".
const helperEnv = "PARLEY_LOCAL_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "open":
		s, err := Open(os.Getenv("PARLEY_LOCAL_TEST_DIR"), nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		s.Close()
		os.Exit(0)
	case "exit":
		exit(&FatalError{Dir: "/some/folder", Err: errors.New("no disk")})
		os.Exit(0)
	case "crash":
		crashChild()
	}
	os.Exit(m.Run())
}

// helper runs this binary in a role and returns its output and exit status.
func helper(t *testing.T, role, dir string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+role, "PARLEY_LOCAL_TEST_DIR="+dir)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestOneProcessPerFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	link := filepath.Join(filepath.Dir(dir), "link")
	s, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, link} {
		second, err := Open(name, nil)
		var locked *LockedError
		if !errors.As(err, &locked) {
			t.Fatalf("second open of %s: %v, %v", name, second, err)
		}
		if locked.Dir != s.engine.(*pebbleEngine).failure.dir || !strings.Contains(err.Error(), "stop that process") {
			t.Errorf("message: %v", err)
		}
		out, status := helper(t, "open", name)
		if status != 3 || !strings.Contains(out, "in use by another process") {
			t.Errorf("open by another process: status %d, %s", status, out)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, status := helper(t, "open", dir); status != 0 {
		t.Errorf("open after close: status %d, %s", status, out)
	}
}

func TestExit(t *testing.T) {
	out, status := helper(t, "exit", "")
	if status != 1 || !strings.Contains(out, "/some/folder") || !strings.Contains(out, "restart the process") {
		t.Errorf("got status %d, %s", status, out)
	}
}

func TestOpenError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(file, nil)
	var locked *LockedError
	if err == nil || errors.As(err, &locked) {
		t.Errorf("open of a file: %v, %v", s, err)
	}
}
