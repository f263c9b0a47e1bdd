package local

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// minBackoff is the engine's backoff after the first failure; it doubles up to mostPause.
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
	// logInterval is the maximum interval between log lines about repeated failures.
	logInterval = time.Minute
	// maxFailures is the number of consecutive failures, over some three seconds, after which writes that
	// wait for the work are failed.
	maxFailures = 7

	flushCategory vfs.DiskWriteCategory = "pebble-memtable-flush"
)

// backoffs add a backoff to work that the engine otherwise retries at once and forever: flushing the
// log into tables and compacting those. The engine holds a lock while it retries, so the backoff happens
// where the next table is created.
type backoffs struct {
	log  *slog.Logger
	fail *failure
	// ended is closed when all waits must end.
	ended chan struct{}

	mu             sync.Mutex
	flush, compact backoff
	// flushed is the result of the last flush.
	flushed error
	stalled bool
}

func newBackoffs(log *slog.Logger, fail *failure) *backoffs {
	return &backoffs{log: log, fail: fail, ended: make(chan struct{})}
}

// backoff is the state of one kind of work.
type backoff struct {
	failures int // consecutive
	err      error
	next     time.Time // time of the next attempt
	// loggedAt is the time of the last log line, and unsaid the number of failures since.
	loggedAt   time.Time
	suppressed int
}

// backgroundError records failed work. For a flush it is called after flushEnd.
func (s *backoffs) backgroundError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := &s.compact
	if errors.Is(err, s.flushed) {
		kind = &s.flush
		s.fail.stopOpening(err)
	}
	now := time.Now()
	kind.failures++
	kind.err = err
	pause := min(minBackoff<<min(kind.failures-1, 16), maxBackoff)
	kind.next = now.Add(pause)
	if quiet := min(10*pause, logInterval); kind.failures > 1 && now.Sub(kind.loggedAt) < quiet {
		kind.suppressed++
	} else {
		s.log.Error("local store background work failed", "err", err, "failures", kind.failures, "suppressed", kind.suppressed)
		kind.loggedAt, kind.suppressed = now, 0
	}
	s.failStalled()
}

func (s *backoffs) flushEnd(info pebble.FlushInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flushed = info.Err; info.Err == nil {
		s.flush = backoff{}
	}
}

func (s *backoffs) compactionEnd(info pebble.CompactionInfo) {
	if info.Err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact = backoff{}
}

// stall records whether writes wait for tables.
func (s *backoffs) stall(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = on
	s.failStalled()
}

// failStalled ends the store if writes wait for work that keeps failing: they would wait forever and block
// Close. The caller holds mu.
func (s *backoffs) failStalled() {
	for _, kind := range []*backoff{&s.flush, &s.compact} {
		if s.stalled && kind.failures >= maxFailures {
			s.fail.report(kind.err)
		}
	}
}

// wait waits for the backoff before a table of this kind is created.
func (s *backoffs) wait(category vfs.DiskWriteCategory) {
	s.mu.Lock()
	kind := &s.compact
	if category == flushCategory {
		kind = &s.flush
	}
	pause := time.Until(kind.next)
	s.mu.Unlock()
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ended:
	}
}
