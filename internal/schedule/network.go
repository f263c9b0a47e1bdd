package schedule

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Fate is what happens to one request.
type Fate string

// What may happen to a request.
const (
	Delivered   Fate = "delivered"
	LostAnswer  Fate = "lost answer"  // it lands; the connection is reset before the answer
	Delayed     Fate = "delayed"      // a time-out is answered; it lands much later
	Duplicated  Fate = "duplicated"   // it lands and is answered; a copy lands later
	ErrorBefore Fate = "error before" // 503 is answered; it never lands
	ErrorAfter  Fate = "error after"  // it lands; 500 is answered
	Dropped     Fate = "dropped"      // it never lands, and no answer comes
	Slow        Fate = "slow"         // it is under way for longer than its sender waits
)

// Faults are all fates but Delivered.
func Faults() []Fate {
	return []Fate{LostAnswer, Delayed, Duplicated, ErrorBefore, ErrorAfter, Dropped, Slow}
}

// Fault turns a draw into one of the faults.
func Fault(x uint64) Fate { return Faults()[x%uint64(len(Faults()))] }

// Reads returns what a fate means for a request that changes nothing.
func (f Fate) Reads() Fate {
	switch f {
	case Delayed:
		return Dropped
	case Duplicated:
		return Delivered
	}
	return f
}

// Late are requests that are under way although nobody waits for them. When they land is
// counted, and told to the trace.
type Late struct {
	Trace  *Trace
	timers sync.Map // by *LateRequest
}

// LateRequest is one of them.
type LateRequest struct {
	ID   string // orders those that are left
	Who  string // sent it
	What string // it is, to be told
	Land func() string
}

// After lands a request after a time, unless Stop comes first.
func (l *Late) After(d time.Duration, r *LateRequest) {
	l.timers.Store(r, time.AfterFunc(d, func() {
		l.Trace.Did("landed late")
		l.Trace.Add(r.Who, "lands late: %s%s", r.What, r.Land())
	}))
}

// Stop lands what is left at once, or drops it.
func (l *Late) Stop(drop func(i int, id string) bool) {
	var left []*LateRequest
	for r, timer := range l.timers.Range {
		if timer.(*time.Timer).Stop() {
			left = append(left, r.(*LateRequest))
		}
	}
	slices.SortFunc(left, func(a, b *LateRequest) int { return strings.Compare(a.ID, b.ID) })
	for i, r := range left {
		if !drop(i, r.ID) {
			l.Trace.Add(r.Who, "lands at the end: %s%s", r.What, r.Land())
		}
	}
}
