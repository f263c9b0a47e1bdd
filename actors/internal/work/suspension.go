package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleyrun/parley/agent"
)

// suspendAfter is the shortest wait for which a run ends. A shorter wait costs less in memory than a
// batch, a timer and another run.
const suspendAfter = 30 * time.Second

// errStillRuns reports that a function continues after its call was suspended.
var errStillRuns = errors.New("tool did not stop when suspended")

// suspension tracks the suspension of a call's run.
type suspension struct {
	stop    context.CancelCauseFunc // ends the context of the function
	abandon context.CancelCauseFunc // stops waiting for the function

	mu    sync.Mutex
	until time.Time // zero until suspended
	grace *time.Timer
}

// suspend ends the run unless the wait is short. Of several times the first counts.
func (p *suspension) suspend(until time.Time) bool {
	if time.Until(until) < suspendAfter {
		return false
	}
	p.leave(until)
	return true
}

// leave ends the run without a minimum wait.
func (p *suspension) leave(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until.IsZero() {
		p.grace = time.AfterFunc(toolGrace, func() { p.abandon(errStillRuns) })
	}
	if p.until.IsZero() || until.Before(p.until) {
		p.until = until
	}
	p.stop(agent.ErrSuspended)
}

// end stops the grace timer and returns the time that the call waits for, if it is suspended.
func (p *suspension) end() (until time.Time, suspended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grace != nil {
		p.grace.Stop()
	}
	return p.until, !p.until.IsZero()
}

// clear turns the suspension into a failure, because the function still runs.
func (p *suspension) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
}
