package export

import (
	"maps"
	"time"

	"github.com/parleyrun/parley/observability"
)

// counts are guarded by Exporter.mu.
type counts struct {
	shipped, lost, journals, journalFailures int64
	lastLost                                 string
}

// Status is the state of an Exporter.
type Status struct {
	Waiting       int           // durable events in memory
	Bytes         int           // their size by observability.Size
	Behind        int           // conversations with batches to be read from the log
	Listed        int           // conversations in the own export journals, written or about to be
	Conversations int           // conversations that are open here or not exported
	Lag           time.Duration // age of the oldest waiting event, in memory or in the log
	Shipped       int64         // durable events that all sinks have stored
	// Lost counts logs that could not be read and were skipped. LastLost describes the newest.
	Lost            int64
	LastLost        string
	Journals        int64 // journals written
	JournalFailures int64
	Sinks           []SinkStatus // in the order of the options
}

// SinkStatus is the state of one sink.
type SinkStatus struct {
	Name   string
	Stored int64 // durable events, including those of a group that other sinks lack
	// Rejected counts durable events that the destination refuses permanently, by reason.
	Rejected observability.Rejections
	Failures int64 // failed attempts to store durable events
	Failing  bool  // the newest attempt failed
	// LastError is the newest failure, at LastErrorAt; "" if there was none.
	LastError   string
	LastErrorAt time.Time
	// Live counts the live events.
	Live observability.BufferCounts
}

// Status returns the current state.
func (x *Exporter) Status() Status {
	x.mu.Lock()
	s := Status{
		Waiting: x.rows, Bytes: x.bytes, Behind: x.behind.Len(), Conversations: len(x.trails),
		Shipped: x.counts.shipped, Lost: x.counts.lost, LastLost: x.counts.lastLost,
		Journals: x.counts.journals, JournalFailures: x.counts.journalFailures,
	}
	for i := range x.shards {
		s.Listed += len(x.shards[i].set)
	}
	if len(x.fifo) > 0 {
		s.Lag = time.Since(x.fifo[0].born)
	}
	if e := x.behind.Front(); e != nil {
		s.Lag = max(s.Lag, time.Since(e.Value.(*trail).since))
	}
	x.mu.Unlock()
	for _, o := range x.outlets {
		s.Sinks = append(s.Sinks, o.status())
	}
	return s
}

func (o *outlet) status() SinkStatus {
	o.mu.Lock()
	c := o.counts
	c.rejected = maps.Clone(c.rejected)
	o.mu.Unlock()
	return SinkStatus{
		Name: o.Name(), Stored: c.stored, Rejected: c.rejected, Failures: c.failures, Failing: c.failing,
		LastError: c.last, LastErrorAt: c.lastAt, Live: o.live.Counts(),
	}
}
