package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors/internal/events"
)

// edge tracks incoming requests and the lifecycle state of the node. It is safe for concurrent use.
type edge struct {
	known   *events.Addresses
	ready   chan struct{}
	serving atomic.Bool
	leaving atomic.Bool // HandOver was called
	ended   func() bool // reports whether Run is ending
	end     context.CancelCauseFunc
	refused atomic.Int64 // requests that reached no owner in time

	mu     sync.Mutex
	calls  int           // requests in flight to their owners
	called chan struct{} // closed when calls reaches 0; nil without a waiter
}

// open starts accepting requests.
func (e *edge) open() {
	e.serving.Store(true)
	close(e.ready)
}

// enter counts a request. It returns false if the node accepts none.
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

// count returns the number of requests in flight.
func (e *edge) count() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int64(e.calls)
}

// wait waits for the requests in flight, at most for limit.
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
