// Package operator has the commands by which an operator looks after what is kept: cluster,
// bucket, log, outbox and import.
package operator

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands are those of this room.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{clusterCommand(p), bucketCommand(p), logCommand(p), outboxCommand(p), importCommand(p)}
}
