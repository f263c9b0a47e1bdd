package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors/internal/events"
)

// edge is where requests come in, and how far the node is with its life. It is safe for
// concurrent use.
type edge struct {
	known   *events.Addresses
	ready   chan struct{}
	serving atomic.Bool
	leaving atomic.Bool // HandOver was called
	ended   func() bool // Run is at its end
	end     context.CancelCauseFunc
	refused atomic.Int64 // requests that found no owner in time

	mu     sync.Mutex
	calls  int           // requests that look for their owner
	called chan struct{} // non-nil while somebody waits for the last of them
}

// open takes requests from now on.
func (e *edge) open() {
	e.serving.Store(true)
	close(e.ready)
}

// enter counts a request that looks for its owner, unless the node takes none.
func (e *edge) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.serving.Load() || e.ended() {
		return false
	}
	e.calls++
	return true
}

func (e *edge) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls--
	if e.calls == 0 && e.called != nil {
		close(e.called)
		e.called = nil
	}
}

// count is how many requests look for their owner.
func (e *edge) count() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int64(e.calls)
}

// wait waits for the requests that look for their owner, at most as long as one
// may take.
func (e *edge) wait(limit time.Duration) {
	e.mu.Lock()
	var done chan struct{}
	if e.calls > 0 {
		done = make(chan struct{})
		e.called = done
	}
	e.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-time.After(limit):
	}
}
