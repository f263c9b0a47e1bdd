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
	// firstPause is how long the engine waits before it tries again what failed for the
	// first time; it doubles up to mostPause.
	firstPause = 50 * time.Millisecond
	mostPause  = 5 * time.Second
	// quietLog is the most that lies between two lines about work that keeps failing.
	quietLog = time.Minute
	// hopeless is how often in a row work has failed, over some three seconds, when
	// writes that wait for it are no longer left to wait.
	hopeless = 7

	flushCategory vfs.DiskWriteCategory = "pebble-memtable-flush"
)

// setbacks slow down what the engine repeats, at once and for ever, when it fails: to
// flush the log into tables, and to compact those. It does so with a lock held, so the
// pause is made where the next table is created.
type setbacks struct {
	log  *slog.Logger
	fail *failure
	// ended is closed when nothing should wait any more.
	ended chan struct{}

	mu             sync.Mutex
	flush, compact setback
	// flushed is how the last flush ended.
	flushed error
	stalled bool
}

func newSetbacks(log *slog.Logger, fail *failure) *setbacks {
	return &setbacks{log: log, fail: fail, ended: make(chan struct{})}
}

// setback is one kind of work.
type setback struct {
	failures int // in a row
	err      error
	next     time.Time // when to try again
	// said is when the log was told, and unsaid how often it was not since.
	said   time.Time
	unsaid int
}

// backgroundError is told of work that failed, after flushEnd was told if it is a flush.
func (s *setbacks) backgroundError(err error) {
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
	pause := min(firstPause<<min(kind.failures-1, 16), mostPause)
	kind.next = now.Add(pause)
	if quiet := min(10*pause, quietLog); kind.failures > 1 && now.Sub(kind.said) < quiet {
		kind.unsaid++
	} else {
		s.log.Error("local store background work", "err", err, "failures", kind.failures, "unsaid", kind.unsaid)
		kind.said, kind.unsaid = now, 0
	}
	s.giveUp()
}

func (s *setbacks) flushEnd(info pebble.FlushInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flushed = info.Err; info.Err == nil {
		s.flush = setback{}
	}
}

func (s *setbacks) compactionEnd(info pebble.CompactionInfo) {
	if info.Err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact = setback{}
}

// stall is told that writes wait for tables, or no longer.
func (s *setbacks) stall(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = on
	s.giveUp()
}

// giveUp ends the store if writes wait for work that does not succeed: they would wait
// for ever, and keep it from being closed. The caller holds mu.
func (s *setbacks) giveUp() {
	for _, kind := range []*setback{&s.flush, &s.compact} {
		if s.stalled && kind.failures >= hopeless {
			s.fail.report(kind.err)
		}
	}
}

// wait makes the pause that is due before a table of this kind is created.
func (s *setbacks) wait(category vfs.DiskWriteCategory) {
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
