//go:build mutants

package actors

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/parleyrun/parley/storage"
)

// rules are switched off when true. They hold for the whole process.
var rules struct{ checksResting, looksAtLog atomic.Bool }

func checksResting() bool { return !rules.checksResting.Load() }
func looksAtLog() bool    { return !rules.looksAtLog.Load() }

// withPending lets a retried append send one record more than the first attempt
// when R1 is off, as a writer would that adds what has gathered meanwhile.
func withPending(ctx context.Context, lines []byte) context.Context {
	return storage.WithPending(ctx, func() []byte {
		return append(slices.Clip(lines), "{\"type\":\"gathered\"}\n"...)
	})
}
