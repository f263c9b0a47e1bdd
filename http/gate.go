package http

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/parleyrun/parley/conversation"
)

// gateRetryAfter is what a request is asked to wait that had no time left to wait
// at the gate.
const gateRetryAfter = 5 * time.Second

// gate bounds the large bodies that are decoded, staged and admitted at a time.
// What costs memory, handles and disk lies behind it; a client that sends slowly is
// still before it, and what is done behind it is bounded by the runtime.
type gate struct {
	capacity int64 // bytes
	free     *semaphore.Weighted
}

func newGate(capacity int64) *gate {
	return &gate{capacity: capacity, free: semaphore.NewWeighted(capacity)}
}

// enter lets a body through that is in memory, and makes one that is in a file wait
// for its turn: first come, first served. The caller calls leave. A body that is
// larger than the gate passes alone.
func (g *gate) enter(ctx context.Context, body *spool) (leave func(), err error) {
	if body.file == nil {
		return func() {}, nil
	}
	weight := min(body.size, g.capacity)
	err = g.free.Acquire(ctx, weight)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// Somebody before us limits the time of a request. The client still listens.
		return nil, conversation.Unavailable(gateRetryAfter, err)
	case err != nil:
		return nil, err
	}
	return func() { g.free.Release(weight) }, nil
}
