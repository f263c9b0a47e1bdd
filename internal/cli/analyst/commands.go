// Package analyst has the commands that show what happened and what there is: stats, trace,
// events and models. None of them serves anything.
package analyst

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands are those of this room.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{statsCommand(p), traceCommand(p), eventsCommand(p), modelsCommand(p)}
}
