package main

import (
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/analyst"
	"github.com/parleyrun/parley/internal/cli/clientcmd"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/operator"
	"github.com/parleyrun/parley/internal/cli/server"
	"github.com/parleyrun/parley/internal/proc"
)

// program has all commands.
var program = clitest.New(commandSets()...)

func commandSets() []cli.CommandSet {
	return []cli.CommandSet{server.Commands, clientcmd.Commands, analyst.Commands, operator.Commands}
}

func TestMain(m *testing.M) { program.Main(m) }

// leanFile is the program without the race detector, once it is built.
var leanFile string

// lean makes a test use the program without the race detector, whose memory would be measured too, and
// with the default garbage collection. Parallel tests must not call it, because it changes the shared
// program.
func lean(t *testing.T) {
	t.Helper()
	t.Setenv("GOGC", "")
	if leanFile == "" { // The go command takes a second even if the binary exists.
		leanFile = proc.Program(t, "cmd/parley", false)
	}
	all := program.File
	program.File = leanFile
	t.Cleanup(func() { program.File = all })
}

// process is a running "parley dev" or "parley serve".
type process struct{ *clitest.Node }

// startDev starts the program on a data folder and waits until it serves.
func startDev(t *testing.T, data string, args ...string) *process {
	t.Helper()
	return &process{program.StartDev(t, data, args...)}
}

// startProgram starts a command that prints a URL first, and waits for the URL.
func startProgram(t *testing.T, args ...string) *process {
	t.Helper()
	return &process{program.Start(t, args...)}
}
