package look

import (
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/node"
)

// program has what these tests run.
var program = clitest.New(Commands, node.Commands)

func TestMain(m *testing.M) { program.Main(m) }
