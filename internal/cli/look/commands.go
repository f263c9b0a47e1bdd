// Package look has the commands that show what happened and what there is: stats, trace,
// events and models. None of them serves anything.
package look

import "github.com/spf13/cobra"

// Commands are those of this room.
func Commands() []*cobra.Command {
	return []*cobra.Command{statsCommand(), traceCommand(), eventsCommand(), modelsCommand()}
}
