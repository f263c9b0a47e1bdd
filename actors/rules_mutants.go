//go:build mutants

package actors

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/parleyrun/parley/storage"
)

// rules disables rules for the whole process.
var rules struct{ checksIdleWriter, readsLog atomic.Bool }

func checksIdleWriter() bool { return !rules.checksIdleWriter.Load() }
func readsLog() bool         { return !rules.readsLog.Load() }

// withPending makes a retried append send one more record than the first attempt when R1 is disabled,
// as a faulty writer would that adds records gathered since then.
func withPending(ctx context.Context, lines []byte) context.Context {
	return storage.WithPending(ctx, func() []byte {
		return append(slices.Clip(lines), "{\"type\":\"gathered\"}\n"...)
	})
}
