package clusterrun_test

import (
	"flag"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
)

var (
	seedFlag     = flag.String("seed", "", "run these seeds alone, separated by commas")
	longFlag     = flag.Bool("long", false, "one run of 300 conversations and 5 minutes of faults")
	nodesFlag    = flag.Int("nodes", 3, "nodes of the cluster")
	convsFlag    = flag.Int("conversations", 0, "conversations; 0 is 12, 6 with the race detector, or 300 with -long")
	programFlag  = flag.String("program", "", "run this parley program in place of one that is built for the test")
	durationFlag = flag.Duration("duration", 0, "duration of the faults in each run; 0 is 25s, or 5m with -long")
)

// liveness bounds a wait for a required event. Only failing runs reach it.
const liveness = 2 * time.Minute

// program returns the parley program, built like this test.
func program(t *testing.T) string {
	t.Helper()
	if *programFlag != "" {
		return *programFlag
	}
	return proc.Program(t, "cmd/parley", sample.Raced())
}
