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

// program is all of it.
var program = clitest.New(commandSets()...)

func commandSets() []cli.CommandSet {
	return []cli.CommandSet{server.Commands, clientcmd.Commands, analyst.Commands, operator.Commands}
}

func TestMain(m *testing.M) { program.Main(m) }

// leanFile is the program without the race detector, once a test has asked for it.
var leanFile string

// lean has a test use the program without the race detector, whose memory is not that of
// the program, and let it collect garbage as it does by itself. Parallel tests must not: they
// share what is run.
func lean(t *testing.T) {
	t.Helper()
	t.Setenv("GOGC", "")
	if leanFile == "" { // It is asked for often, and the go command takes a second to say that it is there.
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

// startProgram starts a command that prints a URL first, and waits for that.
func startProgram(t *testing.T, args ...string) *process {
	t.Helper()
	return &process{program.Start(t, args...)}
}
