// Package server has the commands that are a node: dev, serve, run and chat, and init, which writes
// a first agent. It wires the bucket, the providers, the runtime and HTTP, and names the sinks
// of events.
package server

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands are those of this room.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{devCommand(p), serveCommand(p), runCommand(p), chatCommand(p), initCommand()}
}
