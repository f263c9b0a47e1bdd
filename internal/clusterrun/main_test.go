package clusterrun_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	seedFlag     = flag.String("seed", "", "run these seeds alone, separated by commas")
	longFlag     = flag.Bool("long", false, "one run of 300 conversations and 5 minutes of faults")
	nodesFlag    = flag.Int("nodes", 3, "nodes of the cluster")
	talksFlag    = flag.Int("conversations", 0, "conversations; 0 is 30, or 300 with -long")
	programFlag  = flag.String("program", "", "run this parley program in place of one that is built for the test")
	durationFlag = flag.Duration("duration", 0, "how long faults go on in each run; 0 is 25s, or 5m with -long")
)

// liveness bounds a wait for something that has to happen. It only matters when a
// run fails.
const liveness = 2 * time.Minute

// reaperEnv makes this binary the reaper.
const reaperEnv = "PARLEY_CLUSTERRUN_REAPER"

// shared is what all tests of the process use.
var shared struct {
	reaper *os.File // Is told the ids of processes.
	build  func() (string, error)
	next   func() (string, error) // The version after this one.
}

func TestMain(m *testing.M) {
	if os.Getenv(reaperEnv) != "" {
		reap()
		return
	}
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "parley-cluster-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		stop, err := startReaper()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer stop()
		shared.build = sync.OnceValues(func() (string, error) { return build(filepath.Join(dir, "parley")) })
		shared.next = sync.OnceValues(func() (string, error) { return build(filepath.Join(dir, "parley-next"), "-tags", "nextversion") })
		return m.Run()
	}())
}

// program returns the parley program, built like this test.
func program(t *testing.T) string {
	t.Helper()
	if *programFlag != "" {
		return *programFlag
	}
	file, err := shared.build()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// nextProgram returns the version after this one.
func nextProgram(t *testing.T) string {
	t.Helper()
	file, err := shared.next()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func build(file string, flags ...string) (string, error) {
	args := append([]string{"build", "-o", file}, flags...)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	if out, err := exec.Command("go", append(args, "github.com/parleyrun/parley/cmd/parley")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build parley: %w\n%s", err, out)
	}
	return file, nil
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
	cmd.Stdin, shared.reaper = stdin, out
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
