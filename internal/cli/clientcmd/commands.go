// Package clientcmd has the commands that are clients of a server. The commands send, signal, tail and
// abort call a conversation, and the commands below runs call a run of a workflow. They share no code
// with a node.
package clientcmd

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{sendCommand(), signalCommand(), tailCommand(), abortCommand(), runsCommand(p)}
}
