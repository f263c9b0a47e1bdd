package server

import (
	"os"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clientcmd"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/operator"
)

// program has what these tests run.
var program = clitest.New(Commands, clientcmd.Commands, operator.Commands)

func TestMain(m *testing.M) {
	if at := os.Getenv(vendorsEnv); at != "" {
		program.Brings = withVendors(at)
	}
	program.Main(m)
}
