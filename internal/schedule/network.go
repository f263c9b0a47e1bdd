package schedule

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Outcome is the outcome of one request.
type Outcome string

// Outcomes of a request.
const (
	Delivered   Outcome = "delivered"
	LostAnswer  Outcome = "lost answer"  // it lands; the connection is reset before the answer
	Delayed     Outcome = "delayed"      // a timeout is returned; it lands much later
	Duplicated  Outcome = "duplicated"   // it lands and is answered; a copy lands later
	ErrorBefore Outcome = "error before" // 503 is returned; it never lands
	ErrorAfter  Outcome = "error after"  // it lands; 500 is returned
	Dropped     Outcome = "dropped"      // it never lands, and there is no answer
	Slow        Outcome = "slow"         // it takes longer than its sender waits
)

// Faults returns all outcomes but Delivered.
func Faults() []Outcome {
	return []Outcome{LostAnswer, Delayed, Duplicated, ErrorBefore, ErrorAfter, Dropped, Slow}
}

// Fault maps a draw to one of the faults.
func Fault(x uint64) Outcome { return Faults()[x%uint64(len(Faults()))] }

// Reads maps an outcome to its effect on a request that changes nothing.
func (f Outcome) Reads() Outcome {
	switch f {
	case Delayed:
		return Dropped
	case Duplicated:
		return Delivered
	}
	return f
}

// Late holds requests in flight whose senders have left. Their landing is counted and added to the
// trace.
type Late struct {
	Trace  *Trace
	timers sync.Map // by *LateRequest
}

// LateRequest is one late request.
type LateRequest struct {
	ID          string // order of the remaining requests
	Sender      string // sender
	Description string // description for the trace
	Land        func() string
}

// After lands a request after d, unless Stop is called first.
func (l *Late) After(d time.Duration, r *LateRequest) {
	l.timers.Store(r, time.AfterFunc(d, func() {
		l.Trace.Did("landed late")
		l.Trace.Add(r.Sender, "lands late: %s%s", r.Description, r.Land())
	}))
}

// Stop lands or drops the remaining requests at once.
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
			l.Trace.Add(r.Sender, "lands at the end: %s%s", r.Description, r.Land())
		}
	}
}
