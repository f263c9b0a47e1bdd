package export

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/memory"
	"github.com/parleyrun/parley/observability"
)

// Options configure an Exporter. Member, Sinks and Project are required. The zero value of each other
// field selects its default.
type Options struct {
	Logger *slog.Logger // nil discards
	// Member is the incarnation of this node, which names its journals.
	Member string
	// Sinks receive every event; at least one. Cursors move after all have stored a group. A failed
	// sink is retried, the others are not called again. A sink must respect the deadline of its
	// context.
	Sinks []observability.Sink
	// Project returns the durable events of a batch, see [observability.Project]. The source is the
	// one after the batch. It is safe for concurrent use.
	Project func(observability.Source, conversation.Batch) []observability.Event

	// A group is shipped at the first of these limits: number of events, bytes by
	// [observability.Size], or time since its first event. The events of one batch stay together. 0 is
	// 10,000, 4 MiB and 1 s.
	FlushRows  int
	FlushBytes int
	FlushEvery time.Duration
	// MemoryBytes bounds the durable events that wait in memory; 0 is 64 MiB. A quarter of it is
	// reserved for events read from logs.
	MemoryBytes int
	// Memory is charged for those events. While its budget is exhausted, offered batches are read from
	// the logs later. Nil counts nothing.
	Memory *memory.Account
	// LiveEvents and LiveBytes bound the waiting live events per sink; 0 is 65,536 and 32 MiB.
	LiveEvents int
	LiveBytes  int

	// JournalEvery is the minimum interval of journals of a shard, and the time that a conversation
	// waits to be listed. A conversation exported within that time is never listed. 0 is 5 s.
	JournalEvery time.Duration
	// WriteTimeout bounds one Write of a sink; 0 is 30 s.
	WriteTimeout time.Duration
	// RetryPause is the first backoff after a failure; it doubles up to 30 s. 0 is 1 s.
	RetryPause time.Duration
	// SweepEvery is the interval of sweeps of the journals of nodes that are gone; 0 is 30 s.
	SweepEvery time.Duration
	// Live returns the incarnations of the current view, including this one. ok is false while the
	// view is unknown. nil is this node alone.
	Live func() (members []string, ok bool)
	// Skip reports whether a log must not be read now; it is asked again after a pause. nil reads all.
	Skip func(conversation.Key) bool
	// Reading, if not nil, is called before a log is read; over is called after it.
	Reading func(conversation.Key) (over func())
	// Readers is the number of concurrent log readers; 0 is 4.
	Readers int
}

// maxPause bounds backoffs.
const maxPause = 30 * time.Second

// longestPause returns the upper bound of backoffs.
func (o *Options) longestPause() time.Duration { return max(maxPause, o.RetryPause) }

func (o *Options) complete() (Options, error) {
	if o == nil {
		return Options{}, errors.New("new exporter: options are nil")
	}
	c := *o
	switch {
	case c.Member == "":
		return c, errors.New("new exporter: option Member is empty")
	case len(c.Sinks) == 0:
		return c, errors.New("new exporter: option Sinks is empty")
	case c.Project == nil:
		return c, errors.New("new exporter: option Project is nil")
	}
	for i, s := range c.Sinks {
		if s == nil {
			return c, fmt.Errorf("new exporter: sink %d is nil", i)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Live == nil {
		c.Live = func() ([]string, bool) { return []string{c.Member}, true }
	}
	if c.Skip == nil {
		c.Skip = func(conversation.Key) bool { return false }
	}
	if c.Reading == nil {
		c.Reading = func(conversation.Key) func() { return func() {} }
	}
	fill(&c.FlushRows, 10_000)
	fill(&c.FlushBytes, 4<<20)
	fill(&c.FlushEvery, time.Second)
	fill(&c.MemoryBytes, 64<<20)
	fill(&c.LiveEvents, observability.DefaultQueueEvents)
	fill(&c.LiveBytes, observability.DefaultQueueBytes)
	fill(&c.JournalEvery, 5*time.Second)
	fill(&c.WriteTimeout, 30*time.Second)
	fill(&c.RetryPause, time.Second)
	fill(&c.SweepEvery, 30*time.Second)
	fill(&c.Readers, 4)
	return c, nil
}

func fill[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}
