package pending

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// gate permits either concurrent openings and reads of logs, or a single one. The zero value is open.
type gate struct {
	mu      sync.Mutex
	within  int           // openings and reads in progress
	closed  bool          // one runs alone, or waits for the others to end
	changed chan struct{} // closed at the next change; nil without waiters
}

// pass waits until the gate is open. The caller calls leave after its log is read.
func (g *gate) pass(ctx context.Context) (leave func(), err error) {
	if err := g.await(ctx, func() bool { return !g.closed }, func() { g.within++ }); err != nil {
		return func() {}, err
	}
	return sync.OnceFunc(func() { g.change(func() { g.within-- }) }), nil
}

// close blocks new openings and waits up to limit for those in progress. It reports whether none is
// left. The caller calls open afterwards.
func (g *gate) close(ctx context.Context, limit time.Duration) (open func(), empty bool, err error) {
	if err := g.await(ctx, func() bool { return !g.closed }, func() { g.closed = true }); err != nil {
		return func() {}, false, err
	}
	open = sync.OnceFunc(func() { g.change(func() { g.closed = false }) })
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = g.await(limited, func() bool { return g.within == 0 }, func() {})
	return open, err == nil, nil
}

// await waits until ready and calls then under the same lock.
func (g *gate) await(ctx context.Context, ready func() bool, then func()) error {
	for {
		g.mu.Lock()
		if ready() {
			then()
			g.mu.Unlock()
			return nil
		}
		if g.changed == nil {
			g.changed = make(chan struct{})
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for other openings: %w", ctx.Err())
		}
	}
}

func (g *gate) change(how func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	how()
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
