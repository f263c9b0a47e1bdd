package work

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parleyrun/parley/agent"
)

// suspendAfter is how long a call must want to sleep for its run to end. What is shorter
// costs less in memory than by a batch, a timer and another run.
const suspendAfter = 30 * time.Second

// errStillRuns says that a function goes on after its call was put away.
var errStillRuns = errors.New("the tool did not stop when it had to wait")

// parking is the end of a run of a call that waits for a time.
type parking struct {
	stop   context.CancelCauseFunc // ends the context of the function
	giveUp context.CancelCauseFunc // ends the patience with it

	mu    sync.Mutex
	until time.Time // zero as long as the run has not ended
	grace *time.Timer
}

// park ends the run, unless it is short enough to be waited for. Of more than one time
// the first counts.
func (p *parking) suspend(until time.Time) bool {
	if time.Until(until) < suspendAfter {
		return false
	}
	p.leave(until)
	return true
}

// leave ends the run.
func (p *parking) leave(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until.IsZero() {
		p.grace = time.AfterFunc(toolGrace, func() { p.giveUp(errStillRuns) })
	}
	if p.until.IsZero() || until.Before(p.until) {
		p.until = until
	}
	p.stop(agent.ErrSuspended)
}

// end stops what park has begun, and returns until when the call waits, if it does.
func (p *parking) end() (until time.Time, suspended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.grace != nil {
		p.grace.Stop()
	}
	return p.until, !p.until.IsZero()
}

// forget makes the run one that has failed: its function goes on.
func (p *parking) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
}
