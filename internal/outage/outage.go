// Package outage reduces the log lines of an outage: one when it begins, one a minute while it lasts,
// and one when it ends. Lines after the first have the count, the last also the duration.
//
// The runtime, the exporter and the buffers of sinks call it, each with an [Outage] of one dependency:
// the bucket, a sink, another member. A [Handler] applies an Outage to a whole log: it suppresses the
// records whose errors come from it. Everything is safe for concurrent use. No goroutine and no timer
// is started: an outage ends with a call of Succeeded.
package outage

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// remindEvery is the minimum time between two lines of one outage.
	remindEvery = time.Minute
	// enough is the number of consecutive failed requests that make an outage: a single one may fail
	// in a healthy store.
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
	failed    int       // consecutive failed requests
	first     time.Time // time of the first of them
	on        bool
	began     time.Time
	reported  time.Time // time of the last line
	recovered time.Time // first success since the last failure; zero if there is none
	count     int       // failures in the outage without a line
}

// New returns the state of a healthy dependency. An outage ends after its requests have succeeded for
// settle, so that occasional failures are one outage. If the logger has a [Handler], it is bypassed.
func New(log *slog.Logger, lines Lines, settle time.Duration) *Outage {
	return &Outage{log: Unfiltered(log), lines: lines, settle: settle}
}

// Failed counts a failed request that began at the time began. It logs nothing: a failure followed by
// a successful retry is no outage.
func (o *Outage) Failed(began time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if began.Before(o.recovered) {
		return // It was sent during an outage that has ended.
	}
	if o.failed++; o.failed == 1 {
		o.first = time.Now()
	}
	o.recovered = time.Time{}
}

// Succeeded counts a successful request, and logs the end of an outage with the attributes args.
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

// Report logs a failure with the attributes args: the first one begins the outage, later ones are
// counted.
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

// stage is the effect of a failure on an outage.
type stage int

const (
	none      stage = iota // no outage
	begins                 // begins one, with a line
	counted                // counted
	continues              // counted, and a line is due
)

// step is the stage of a failure, and the state of its outage.
type step struct {
	is       stage
	duration time.Duration
	count    int
}

// take counts a failure, which may begin an outage if may is true.
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

// record counts a log record with a matching error. It begins an outage unless requests succeed.
func (o *Outage) record() step {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.take(o.failed >= enough)
}
