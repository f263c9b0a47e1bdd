// Package outage reduces the log lines of an outage to one when it begins, one a minute with the count while it lasts,
// and one with the duration and the count when it ends.
//
// The runtime, the exporter and the buffers of sinks call it, each with an [Outage] of one dependency: the bucket, a sink,
// another member. A [Handler] applies an Outage to a whole log: it suppresses the records whose errors come from it.
// Everything is safe for concurrent use. No goroutine and no timer is started: an outage ends with a call of Succeeded.
package outage

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// remindEvery is the least time between two lines of one outage.
	remindEvery = time.Minute
	// enough is the number of requests in a row that fail before records about them are an outage: a single one
	// may fail in a store that is well.
	enough = 2
)

// Lines are the messages of an outage.
type Lines struct{ Began, Continues, Ended string }

// Outage is the state of one dependency.
type Outage struct {
	log    *slog.Logger
	lines  Lines
	settle time.Duration

	mu        sync.Mutex
	failed    int       // Requests in a row that failed.
	first     time.Time // When the first of them had failed.
	on        bool
	began     time.Time
	reported  time.Time // When the last line was logged.
	recovered time.Time // When the first request succeeded since the last one failed; zero is none.
	count     int       // Failures since it began that have no line.
}

// New returns the state of a dependency that is well. An outage ends when its requests have succeeded for settle, so
// that one that fails now and then is one outage. A logger of a [Handler] is used without it.
func New(log *slog.Logger, lines Lines, settle time.Duration) *Outage {
	return &Outage{log: Unfiltered(log), lines: lines, settle: settle}
}

// Failed notes a request that began at a time and failed. It logs nothing: a request that is repeated with success is no
// outage.
func (o *Outage) Failed(began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if began.Before(o.recovered) {
		return // It was sent in an outage that is over.
	}
	if o.failed++; o.failed == 1 {
		o.first = time.Now()
	}
	o.recovered = time.Time{}
}

// Succeeded notes a request that succeeded, and logs the end of an outage, with more attributes.
func (o *Outage) Succeeded(args ...any) {
	o.mu.Lock()
	o.failed = 0
	if !o.on {
		o.mu.Unlock()
		return
	}
	now := time.Now()
	if o.recovered.IsZero() {
		o.recovered = now
	}
	if now.Sub(o.recovered) < o.settle {
		o.mu.Unlock()
		return
	}
	o.on = false
	duration, count := o.recovered.Sub(o.began), o.count
	o.mu.Unlock()
	o.log.Info(o.lines.Ended, append([]any{"duration", duration, "suppressed", count}, args...)...)
}

// Report notes a failure that is logged, with more attributes: the first one begins the outage, later ones are counted.
func (o *Outage) Report(err error, args ...any) {
	o.mu.Lock()
	if !o.on && o.failed == 0 {
		o.first = time.Now()
	}
	o.recovered = time.Time{}
	s := o.take(true)
	o.mu.Unlock()
	switch s.is {
	case begins:
		o.log.Warn(o.lines.Began, append([]any{"err", err}, args...)...)
	case continues:
		o.remind(s, err, args...)
	}
}

func (o *Outage) remind(s step, err error, args ...any) {
	o.log.Warn(o.lines.Continues, append([]any{"duration", s.duration, "suppressed", s.count, "err", err}, args...)...)
}

// stage is what a failure is in an outage.
type stage int

const (
	none      stage = iota // There is no outage.
	begins                 // It begins one, with a line.
	counted                // It is counted.
	continues              // It is counted, and a line is due.
)

// step is the stage of a failure, and the state of its outage.
type step struct {
	is       stage
	duration time.Duration
	count    int
}

// take counts a failure, which begins an outage if it may.
func (o *Outage) take(may bool) step {
	now := time.Now()
	switch {
	case !o.on && !may:
		return step{}
	case !o.on:
		o.on, o.began, o.reported, o.count = true, o.first, now, 0
		return step{is: begins}
	}
	o.count++
	if now.Sub(o.reported) < remindEvery {
		return step{is: counted}
	}
	o.reported = now
	return step{continues, now.Sub(o.began), o.count}
}

// record counts a record of a log whose error may come from the outage. It begins one while no request succeeds.
func (o *Outage) record() step {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.take(o.failed >= enough)
}
