//go:build mutants

package work

import "sync/atomic"

var waitForRoom atomic.Bool

// SetWaitForRoom switches the rule that calls wait for memory for their outputs.
func SetWaitForRoom(on bool) { waitForRoom.Store(!on) }

func waitsForRoom() bool { return !waitForRoom.Load() }
