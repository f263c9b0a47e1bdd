package schedule

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Event is an event that schedules are meant to cover.
type Event = string

// Counts counts the events of schedules.
type Counts map[Event]int

// Add adds the counts of another schedule.
func (s Counts) Add(o Counts) {
	for k, n := range o {
		s[k] += n
	}
}

// Below returns the events that occurred too rarely in this many schedules to verify anything.
// thousandth is the required count per thousand schedules, far below the actual one.
func (s Counts) Below(thousandth map[Event]int, schedules int) []string {
	var out []string
	for desc, n := range thousandth {
		if want := schedules * n / 1000; s[desc] < want {
			out = append(out, fmt.Sprintf("%s %d, want %d", desc, s[desc], want))
		}
	}
	slices.Sort(out)
	return out
}

// Report is the result of a schedule.
type Report struct {
	// Violation is the first violated guarantee, "" if none was.
	Violation string
	// Trace returns the events, one line each.
	Trace  func() []string
	Counts Counts
}

// Trace records and counts events, to be printed if a schedule fails.
type Trace struct {
	began time.Time

	mu     sync.Mutex
	events []event
	broken string
	counts Counts
}

type event struct {
	at     time.Duration
	source string
	format string
	args   []any
}

func NewTrace() *Trace { return &Trace{began: time.Now(), counts: Counts{}} }

// Now returns the time since the trace began.
func (t *Trace) Now() time.Duration { return time.Since(t.began) }

// Add records an event. The arguments are formatted later, so they must not change.
func (t *Trace) Add(source, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, event{t.Now(), source, format, args})
}

// Violate records a violated guarantee.
func (t *Trace) Violate(source, format string, args ...any) {
	t.Add(source, "VIOLATION: "+format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == "" {
		t.broken = fmt.Sprintf(format, args...)
	}
}

// ViolateIf calls Violate if broken is true.
func (t *Trace) ViolateIf(broken bool, source, format string, args ...any) {
	if broken {
		t.Violate(source, format, args...)
	}
}

// Did counts an event.
func (t *Trace) Did(d Event) { t.DidN(d, 1) }

// DidN counts an event n times.
func (t *Trace) DidN(d Event, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[d] += n
}

// Report ends the trace.
func (t *Trace) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Report{Violation: t.broken, Trace: t.lines, Counts: t.counts}
}

// lines formats the events. Events of several goroutines at the same nanosecond have no order, so they
// are sorted by their text.
func (t *Trace) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]string, 0, len(t.events))
	for _, e := range t.events {
		out = append(out, fmt.Sprintf("%14.9fs %-6s %s", e.at.Seconds(), e.source, fmt.Sprintf(e.format, e.args...)))
	}
	slices.Sort(out)
	return out
}
