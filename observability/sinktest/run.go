package sinktest

import (
	"cmp"
	"context"
	"testing"

	"github.com/parleyrun/parley/observability"
)

// manyEvents is the default of Options.Many.
const manyEvents = 10_000

// Options configure the suite.
type Options struct {
	// New returns a sink over an empty store. read returns the events of the store, each id once, and
	// the durable ones of a conversation in order of Seq and Index; for an unordered store, it sorts.
	New func(t *testing.T) (sink observability.Sink, read func(t *testing.T) []observability.Event)
	// Second returns another sink over the store of first. Nil is for a store with a single sink: then
	// two goroutines share it.
	Second func(t *testing.T, first observability.Sink) observability.Sink
	// Many is the number of events in the rule many; 0 is 10,000.
	Many int
}

// Run checks a sink against every rule, each with its own store.
func Run(t *testing.T, opts Options) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			sink, read := opts.New(t)
			s := &store{
				sink:   sink,
				second: func() observability.Sink { return sink },
				read:   func() []observability.Event { return read(t) },
				many:   cmp.Or(opts.Many, manyEvents),
			}
			if opts.Second != nil {
				s.second = func() observability.Sink { return opts.Second(t, sink) }
			}
			if err := r.check(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
}

// store is the store under test.
type store struct {
	sink   observability.Sink
	second func() observability.Sink
	read   func() []observability.Event
	many   int
}

// rule is a named rule; check returns its violation.
type rule struct {
	name  string
	check func(ctx context.Context, s *store) error
}

func rules() []rule {
	return []rule{
		{"name", checkName},
		{"nothing", checkNothing},
		{"everyType", checkEveryType},
		{"order", checkOrder},
		{"again", checkAgain},
		{"cancelled", checkCancelled},
		{"callersSlice", checkCallersSlice},
		{"large", checkLarge},
		{"text", checkText},
		{"many", checkMany},
		{"concurrent", checkConcurrent},
	}
}
