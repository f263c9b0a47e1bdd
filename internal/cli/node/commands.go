// Package node has the commands that are a node: dev, serve and run. It wires the bucket,
// the providers, the runtime and HTTP, and names the sinks of events.
package node

import "github.com/spf13/cobra"

// Commands are those of this room.
func Commands() []*cobra.Command {
	return []*cobra.Command{devCommand(), serveCommand(), runCommand()}
}
