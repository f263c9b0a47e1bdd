package server

import (
	"os"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clientcmd"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/operator"
)

var program = clitest.New(Commands, clientcmd.Commands, operator.Commands)

func TestMain(m *testing.M) {
	if at := os.Getenv(vendorsEnv); at != "" {
		program.Own = withVendors(at)
	}
	program.Main(m)
}
