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

// Options tune an Exporter. Member, Sinks and Project are required; every other zero
// field works.
type Options struct {
	Logger *slog.Logger // nil discards
	// Member is the incarnation of this node, which names its journals.
	Member string
	// Sinks get every event, at least one. All must have stored a group before cursors
	// move. One that fails is asked again; those that have the group are not. A sink must
	// heed the deadline of its context.
	Sinks []observability.Sink
	// Project returns the durable events of a batch, see [observability.Project]. The
	// source is the one that holds after the batch. Safe for concurrent use.
	Project func(observability.Source, conversation.Batch) []observability.Event

	// A group leaves when the first of these is reached: so many events, so many bytes by
	// [observability.Size], or so long after the first of it came. The events of one batch
	// stay together. 0 is 10,000, 4 MiB and 1 s.
	FlushRows  int
	FlushBytes int
	FlushEvery time.Duration
	// MemoryBytes bounds the durable events that wait in memory; 0 is 64 MiB. A quarter of
	// it is kept for what is read from logs.
	MemoryBytes int
	// Memory counts those events; while its budget is used up, what comes is read from the
	// logs later. Nil counts nothing.
	Memory *memory.Account
	// LiveEvents and LiveBytes bound the live events that wait, for each sink; 0 is 65,536
	// and 32 MiB.
	LiveEvents int
	LiveBytes  int

	// JournalEvery is the least time between two journals of a shard, and how long a
	// conversation waits to be listed: one that is exported by then never is. 0 is 5 s.
	JournalEvery time.Duration
	// WriteTimeout bounds one Write of a sink; 0 is 30 s.
	WriteTimeout time.Duration
	// RetryPause is the pause before the second attempt of what failed; it doubles up to
	// 30 s. 0 is 1 s.
	RetryPause time.Duration
	// SweepEvery is how often the journals of nodes that are gone are looked for; 0 is 30 s.
	SweepEvery time.Duration
	// Live returns the incarnations of the current view, this one included; ok is false
	// while the view is not known. nil is this node alone.
	Live func() (members []string, ok bool)
	// Skip reports whether a log must not be read now; it is asked again after a pause. nil
	// reads all.
	Skip func(conversation.Key) bool
	// Reading is told that a log is about to be read, and over that it was; nil tells nobody.
	Reading func(conversation.Key) (over func())
	// Readers is how many logs are read at once; 0 is 4.
	Readers int
}

// maxPause bounds the pauses that double.
const maxPause = 30 * time.Second

// longestPause is what pauses double up to.
func (o *Options) longestPause() time.Duration { return max(maxPause, o.RetryPause) }

// complete returns the options with every default filled in.
func (o *Options) complete() (Options, error) {
	if o == nil {
		return Options{}, errors.New("new exporter: it needs options")
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
