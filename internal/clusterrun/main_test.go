package clusterrun_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
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

// shared is what all tests of the process use.
var shared struct {
	build func() (string, error)
	next  func() (string, error) // The version after this one.
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "parley-cluster-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		shared.build = sync.OnceValues(func() (string, error) { return build(dir, "parley") })
		shared.next = sync.OnceValues(func() (string, error) { return build(dir, "parley-next", "-tags", "nextversion") })
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

func build(dir, name string, flags ...string) (string, error) {
	file := filepath.Join(dir, name)
	return file, noderun.Build(file, flags...)
}
