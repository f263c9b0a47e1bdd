package keep

import (
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/node"
	"github.com/parleyrun/parley/internal/cli/talk"
)

// program has what these tests run.
var program = clitest.New(Commands, node.Commands, talk.Commands)

func TestMain(m *testing.M) { program.Main(m) }
