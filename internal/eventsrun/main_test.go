package eventsrun_test

import (
	"flag"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/sample"
)

var (
	eventsFlag  = flag.Int("events", sample.Of(10_000, 700), "durable events that the run makes, at least")
	seedFlag    = flag.Uint64("seed", 1, "seed of the messages and kills")
	programFlag = flag.String("program", "", "run this parley program in place of one that is built for the test")
)

// liveness bounds a wait for a required event. Only failing runs reach it.
const liveness = 3 * time.Minute

// program returns the parley program, built like this test.
func program(t *testing.T) string {
	t.Helper()
	if *programFlag != "" {
		return *programFlag
	}
	return proc.Program(t, "cmd/parley", sample.Raced())
}
