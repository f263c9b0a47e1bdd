package schedule

import (
	"sync"
	"time"
)

// Late are requests that are under way although nobody waits for them. The zero value
// has none.
type Late[R any] struct {
	mu     sync.Mutex
	timers map[*R]*time.Timer
}

// After lands a request after a time, unless Stop comes first.
func (l *Late[R]) After(d time.Duration, r R, land func(R)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timers == nil {
		l.timers = map[*R]*time.Timer{}
	}
	l.timers[&r] = time.AfterFunc(d, func() {
		l.mu.Lock()
		delete(l.timers, &r)
		l.mu.Unlock()
		land(r)
	})
}

// Stop returns what has not landed and will not any more, in no order.
func (l *Late[R]) Stop() (left []R) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, timer := range l.timers {
		if timer.Stop() {
			left = append(left, *r)
		}
	}
	clear(l.timers)
	return left
}
