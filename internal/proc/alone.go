package proc

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/sample"
)

// childOf is the environment variable with the name of the test that a child process runs.
const childOf = "PARLEY_TEST_CHILD_OF"

// Test is the used part of a *testing.T.
type Test interface {
	Context() context.Context
	Name() string
	TempDir() string
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Child returns a command that runs only the calling test in its own process, which ends with the
// test. In that process IsChild reports true.
func Child(t Test) *exec.Cmd {
	name := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+name, "-test.count=1", "-test.v")
	if slices.Contains(os.Args, sample.Short) {
		cmd.Args = append(cmd.Args, sample.Short)
	}
	// The race detector would otherwise delay the exit by a second.
	cmd.Env = append(os.Environ(), childOf+"="+t.Name(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return cmd
}

// IsChild reports whether this process is the child of the calling test.
func IsChild(t Test) bool { return os.Getenv(childOf) == t.Name() }

// Isolated runs only the calling test in its own process and returns true, upon which the caller must
// return. In that process it returns false.
func Isolated(t Test) bool {
	t.Helper()
	if IsChild(t) {
		return false
	}
	if out, err := Child(t).CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("isolated process: %v\n%s", err, out)
	}
	return true
}

// gone bounds the remaining run time of the children of an ended process.
const gone = time.Minute

// EndsWithItsProcess fails the calling test unless a server ends with the process that started it.
// listen starts a server and returns its address. It is called in its own process, which exits without
// any cleanup.
func EndsWithItsProcess(t Test, listen func() (address string)) {
	t.Helper()
	const listens = "\nlistens at "
	if IsChild(t) {
		fmt.Printf("%s%s\n", listens, listen())
		os.Exit(0)
	}
	cmd := Child(t)
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir()) // Its files are removed with this test.
	out, err := cmd.Output()
	_, address, _ := strings.Cut(string(out), listens)
	address = strings.TrimSpace(address)
	if _, _, bad := net.SplitHostPort(address); err != nil || bad != nil {
		t.Fatalf("the other process: %v: %s", err, out)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		conn.Close()
		if time.Since(began) > gone {
			t.Fatalf("the server at %s still runs", address)
		}
	}
}
