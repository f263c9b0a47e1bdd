package attackrun_test

import (
	"flag"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
)

var (
	seedFlag     = flag.Uint64("seed", 1, "seed of the requests and faults")
	longFlag     = flag.Bool("long", false, "15 minutes of the attack, and latencies are judged")
	durationFlag = flag.Duration("duration", 0, "minimum duration of the attack; 0 is 8s, or 15m with -long")
	kindsFlag    = flag.String("kinds", sample.Of("", "connections,followers,loop"), "only these kinds of attack, separated by commas; other requirements are then skipped")
	programFlag  = flag.String("program", "", "run this parley program, built with the tag attack, in place of one that is built for the test")
	keepFlag     = flag.String("keep", "", "keep the logs of the nodes in this folder")
)

// liveness bounds a wait for a required event. Only failing runs reach it.
const liveness = 4 * time.Minute

// program returns the program without the race detector, which changes its memory use.
func program(t *testing.T) string {
	t.Helper()
	if *programFlag != "" {
		return *programFlag
	}
	return proc.Program(t, "cmd/parley", false, "attack")
}
