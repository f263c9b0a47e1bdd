package eventsrun_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"
)

var (
	eventsFlag  = flag.Int("events", 10_000, "durable events that the run makes, at least")
	seedFlag    = flag.Uint64("seed", 1, "decides what is sent, and what is killed when")
	programFlag = flag.String("program", "", "run this parley program in place of one that is built for the test")
)

// liveness bounds a wait for something that has to happen. It only matters when a run
// fails.
const liveness = 3 * time.Minute

// reaperEnv makes this binary the reaper.
const reaperEnv = "PARLEY_EVENTSRUN_REAPER"

// reaper is told the ids of processes.
var reaper *os.File

func TestMain(m *testing.M) {
	if os.Getenv(reaperEnv) != "" {
		reap()
		return
	}
	flag.Parse()
	os.Exit(func() int {
		stop, err := startReaper()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer stop()
		return m.Run()
	}())
}

// raced reports whether this test has the race detector.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}

// program returns the parley program, built like this test.
func program(t *testing.T) string {
	t.Helper()
	if *programFlag != "" {
		return *programFlag
	}
	file := filepath.Join(t.TempDir(), "parley")
	args := []string{"build", "-o", file}
	if raced() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/parleyrun/parley/cmd/parley")...).CombinedOutput(); err != nil {
		t.Fatalf("build parley: %v\n%s", err, out)
	}
	return file
}

// startReaper starts a process that kills whatever is left when this one is gone.
func startReaper() (stop func(), err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), reaperEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	cmd.Stdin, reaper = stdin, out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		out.Close()
		_ = cmd.Wait() // It has nothing left to do.
	}, nil
}

// reap reads ids with a sign before them, + for a process that begins and - for one
// that has ended, until there is nobody to write any.
func reap() {
	left := map[int]bool{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		switch {
		case err != nil:
			fmt.Fprintln(os.Stderr, "reaper:", err)
		case n > 0:
			left[n] = true
		default:
			delete(left, -n)
		}
	}
	for pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL) // It may have ended.
	}
}
