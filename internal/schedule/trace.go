package schedule

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Trace collects what happens, to be told if a schedule fails.
type Trace struct {
	began time.Time

	mu     sync.Mutex
	events []event
	broken []string
}

type event struct {
	at     time.Duration
	who    string
	format string
	args   []any
}

// NewTrace begins a trace.
func NewTrace() *Trace { return &Trace{began: time.Now()} }

// Now is how long ago the trace began.
func (t *Trace) Now() time.Duration { return time.Since(t.began) }

// Add records an event. The arguments are formatted later: they must not change.
func (t *Trace) Add(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, event{t.Now(), who, format, args})
}

// Violate records that a promise was broken.
func (t *Trace) Violate(who, format string, args ...any) {
	t.Add(who, "VIOLATION: "+format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = append(t.broken, fmt.Sprintf(format, args...))
}

// Violation returns the first one, "" if there was none.
func (t *Trace) Violation() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.broken) == 0 {
		return ""
	}
	return t.broken[0]
}

// Lines tells what happened. What one event has set going in several goroutines of
// a node happens at the same nanosecond and in no order: it is told in the order of
// its words.
func (t *Trace) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]string, 0, len(t.events))
	for _, e := range t.events {
		out = append(out, fmt.Sprintf("%14.9fs %-6s %s", e.at.Seconds(), e.who, fmt.Sprintf(e.format, e.args...)))
	}
	slices.Sort(out)
	return out
}
