package node

import (
	"os"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/keep"
	"github.com/parleyrun/parley/internal/cli/talk"
)

// program has what these tests run.
var program = clitest.New(Commands, talk.Commands, keep.Commands)

func TestMain(m *testing.M) {
	if at := os.Getenv(vendorsEnv); at != "" {
		program.Brings = withVendors(at)
	}
	program.Main(m)
}
