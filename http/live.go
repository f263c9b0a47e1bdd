package http

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// errDraining is the cancellation cause of live responses ended by Drain.
var errDraining = errors.New("the handler is draining")

// live tracks live responses so that Drain can end them. The zero value is ready to use.
type live struct {
	mu       sync.Mutex
	draining bool
	next     int
	cancels  map[int]context.CancelCauseFunc
}

// enter registers a live response. Its context ends when the client disconnects or the handler drains.
// The caller calls leave at the end of the response.
func (l *live) enter(parent context.Context) (ctx context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return nil, nil, conversation.Unavailable(time.Second, errDraining)
	}
	ctx, cancel := context.WithCancelCause(parent)
	if l.cancels == nil {
		l.cancels = map[int]context.CancelCauseFunc{}
	}
	id := l.next
	l.next++
	l.cancels[id] = cancel
	return ctx, func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.cancels, id)
	}, nil
}

func (l *live) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	for _, cancel := range l.cancels {
		cancel(errDraining)
	}
}
