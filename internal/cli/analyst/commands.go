// Package analyst has the commands that show events and models: stats, trace, events and models. It
// must not serve anything.
package analyst

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{statsCommand(p), traceCommand(p), eventsCommand(p), modelsCommand(p)}
}
