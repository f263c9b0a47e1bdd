package analyst

import (
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/server"
)

var program = clitest.New(Commands, server.Commands)

func TestMain(m *testing.M) { program.Main(m) }
