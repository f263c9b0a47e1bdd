package sinktest

import (
	"cmp"
	"context"
	"testing"

	"github.com/parleyrun/parley/observability"
)

// manyEvents are those of one Write, unless Options say another number.
const manyEvents = 10_000

// Options says how to make what is tested.
type Options struct {
	// New makes a sink over a store that is empty. read returns the events of the store,
	// each id once; the durable ones of a conversation in order of Seq and Index, by which
	// a store that does not keep an order sorts.
	New func(t *testing.T) (sink observability.Sink, read func(t *testing.T) []observability.Event)
	// Second makes another sink over the store of one that New has made. Nil is for a
	// store that only one sink may write: then two goroutines do so through one sink.
	Second func(t *testing.T, first observability.Sink) observability.Sink
	// Many is how many events the rule many writes at once, 10,000 if it is 0.
	Many int
}

// Run holds a sink against every rule, each with a store of its own.
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

// store is what a rule is checked on.
type store struct {
	sink   observability.Sink
	second func() observability.Sink
	read   func() []observability.Event
	many   int
}

// rule is a named law; check says how it is broken.
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
