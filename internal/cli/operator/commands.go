// Package operator has the commands with which an operator inspects and repairs stored data: cluster,
// bucket, log, outbox and import.
package operator

import (
	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{clusterCommand(p), bucketCommand(p), logCommand(p), outboxCommand(p), importCommand(p)}
}
