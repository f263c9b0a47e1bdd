// Package server has the commands that run a node (dev, serve, run and chat), and init, which creates
// a first agent. It connects the bucket, the providers, the runtime, HTTP and the sinks of events.
package server

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{devCommand(p), serveCommand(p), runCommand(p), chatCommand(p), initCommand()}
}
