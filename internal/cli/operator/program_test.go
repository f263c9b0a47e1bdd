package operator

import (
	"testing"

	"github.com/parleyrun/parley/internal/cli/clientcmd"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/server"
)

var program = clitest.New(Commands, server.Commands, clientcmd.Commands)

func TestMain(m *testing.M) { program.Main(m) }
