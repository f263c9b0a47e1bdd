package attackrun_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var (
	seedFlag     = flag.Uint64("seed", 1, "decides what is sent and broken, and when")
	longFlag     = flag.Bool("long", false, "15 minutes of the attack, and latencies are judged")
	durationFlag = flag.Duration("duration", 0, "how long the attack goes on at least; 0 is 8s, or 15m with -long")
	kindsFlag    = flag.String("kinds", "", "only these kinds of attack, separated by commas; what else has to be seen is left out then")
	programFlag  = flag.String("program", "", "run this parley program, built with the tag attack, in place of one that is built for the test")
	keepFlag     = flag.String("keep", "", "keep the logs of the nodes in this folder")
)

// liveness bounds a wait for something that has to happen. It only matters when a run
// fails.
const liveness = 2 * time.Minute

// shared is what all tests of the process use.
var shared struct{ build func() (string, error) }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "parley-attack-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		shared.build = sync.OnceValues(func() (string, error) { return build(filepath.Join(dir, "parley")) })
		return m.Run()
	}())
}

// build builds the program without the race detector, whose memory is not that of the
// program.
func build(file string) (string, error) {
	out, err := exec.Command("go", "build", "-o", file, "-tags", "attack", "github.com/parleyrun/parley/cmd/parley").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build parley: %w\n%s", err, out)
	}
	return file, nil
}

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
