package schedule

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Deed is something that schedules are meant to bring about.
type Deed = string

// Shown counts what schedules have exercised.
type Shown map[Deed]int

// Add adds the counts of another schedule.
func (s Shown) Add(o Shown) {
	for k, n := range o {
		s[k] += n
	}
}

// Below returns what so many schedules have shown too rarely to prove anything. It is
// wanted as often as a thousand schedules show it at least, which is far below what they
// do show.
func (s Shown) Below(thousandth map[Deed]int, schedules int) []string {
	var out []string
	for what, n := range thousandth {
		if want := schedules * n / 1000; s[what] < want {
			out = append(out, fmt.Sprintf("%s %d, want %d", what, s[what], want))
		}
	}
	slices.Sort(out)
	return out
}

// Report is what came of a schedule.
type Report struct {
	// Violation is the first promise that was broken, "" if none was.
	Violation string
	// Trace tells what happened, one line each.
	Trace func() []string
	Shown Shown
}

// Trace collects what happens, to be told if a schedule fails, and counts it.
type Trace struct {
	began time.Time

	mu     sync.Mutex
	events []event
	broken string
	shown  Shown
}

type event struct {
	at     time.Duration
	who    string
	format string
	args   []any
}

// NewTrace begins a trace.
func NewTrace() *Trace { return &Trace{began: time.Now(), shown: Shown{}} }

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
	if t.broken == "" {
		t.broken = fmt.Sprintf(format, args...)
	}
}

// ViolateIf is Violate where a promise was broken.
func (t *Trace) ViolateIf(broken bool, who, format string, args ...any) {
	if broken {
		t.Violate(who, format, args...)
	}
}

// Did counts a deed.
func (t *Trace) Did(d Deed) { t.DidN(d, 1) }

// DidN counts a deed that was done n times.
func (t *Trace) DidN(d Deed, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shown[d] += n
}

// Report ends a trace.
func (t *Trace) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Report{Violation: t.broken, Trace: t.lines, Shown: t.shown}
}

// lines tells what happened. What one event has set going in several goroutines of a node
// happens at the same nanosecond and in no order: it is told in the order of its words.
func (t *Trace) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]string, 0, len(t.events))
	for _, e := range t.events {
		out = append(out, fmt.Sprintf("%14.9fs %-6s %s", e.at.Seconds(), e.who, fmt.Sprintf(e.format, e.args...)))
	}
	slices.Sort(out)
	return out
}
