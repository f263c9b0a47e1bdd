// Command parley runs durable agent conversations and talks to them. See "parley help".
package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/keep"
	"github.com/parleyrun/parley/internal/cli/look"
	"github.com/parleyrun/parley/internal/cli/node"
	"github.com/parleyrun/parley/internal/cli/talk"
)

func main() { cli.Main(rootCommand()) }

// rootCommand is the program with all its commands.
func rootCommand() *cobra.Command { return cli.Root(commands()...) }

func commands() []*cobra.Command {
	return slices.Concat(node.Commands(), talk.Commands(), look.Commands(), keep.Commands())
}
