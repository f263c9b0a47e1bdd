// Package clientcmd has the commands that talk to a conversation of a server, which are send,
// signal, tail and abort, and to a run of a workflow, which are those of runs. They are clients, and know nothing of a node.
package clientcmd

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands are those of this room.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{sendCommand(), signalCommand(), tailCommand(), abortCommand(), runsCommand(p)}
}
