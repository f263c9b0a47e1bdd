//go:build mutants

package work

import "sync/atomic"

// waitForRoom is switched off when true. It holds for the whole process.
var waitForRoom atomic.Bool

// SetWaitForRoom switches the rule that calls wait for room for their outputs.
func SetWaitForRoom(on bool) { waitForRoom.Store(!on) }

func waitsForRoom() bool { return !waitForRoom.Load() }
