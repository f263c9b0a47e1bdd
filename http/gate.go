package http

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/parleyrun/parley/conversation"
)

// gateRetryAfter is the Retry-After of a request whose context ended at the gate.
const gateRetryAfter = 5 * time.Second

// gate bounds the large bodies that are decoded, staged and admitted concurrently, which use memory,
// handles and disk. Clients send their bodies before the gate. The runtime bounds the time behind it.
type gate struct {
	capacity int64 // bytes
	free     *semaphore.Weighted
}

func newGate(capacity int64) *gate {
	return &gate{capacity: capacity, free: semaphore.NewWeighted(capacity)}
}

// enter admits a body in memory immediately and queues one in a file, first come, first served. The
// caller calls leave. A body larger than the gate passes alone.
func (g *gate) enter(ctx context.Context, body *spool) (leave func(), err error) {
	if body.file == nil {
		return func() {}, nil
	}
	weight := min(body.size, g.capacity)
	err = g.free.Acquire(ctx, weight)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		// A middleware timeout ended the context; the client is still connected.
		return nil, conversation.Unavailable(gateRetryAfter, err)
	case err != nil:
		return nil, err
	}
	return func() { g.free.Release(weight) }, nil
}
