// Package keep has the commands by which an operator looks after what is kept: cluster,
// bucket and log.
package keep

import "github.com/spf13/cobra"

// Commands are those of this room.
func Commands() []*cobra.Command {
	return []*cobra.Command{clusterCommand(), bucketCommand(), logCommand()}
}
