package clickhouse_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/stats"
)

// stored writes traffic twice, like an exporter after a crash.
func stored(t *testing.T, s *clickhousetest.Server, n int) (*clickhouse.Database, clickhouse.Options, []observability.Event) {
	t.Helper()
	o := options(t, s, s.Database(t))
	db := migrated(t, o)
	events := traffic(n, 7)
	for part := range slices.Chunk(events, 1500) {
		write(t, db, part)
	}
	again := slices.Clone(events)
	slices.Reverse(again)
	write(t, db, again)
	return db, o, events
}

func selected(events []observability.Event, include func(*observability.Event) bool) []observability.Event {
	var list []observability.Event
	for _, e := range events {
		if include(&e) {
			list = append(list, e)
		}
	}
	return list
}

func TestEvents(t *testing.T) {
	s := clickhousetest.Start(t)
	db, _, events := stored(t, s, 200)
	const since, until = dayStart + 86_400_000, dayStart + 2*86_400_000 + 5
	tests := map[string]struct {
		filter  clickhouse.Filter
		include func(*observability.Event) bool
	}{
		"all":        {clickhouse.Filter{}, func(*observability.Event) bool { return true }},
		"submission": {clickhouse.Filter{Submission: "sub_33"}, func(e *observability.Event) bool { return e.Submission == "sub_33" }},
		"instance":   {clickhouse.Filter{Instance: "issue 5"}, func(e *observability.Event) bool { return e.Instance == "issue 5" }},
		"agent":      {clickhouse.Filter{Agent: "it's \\ odd?"}, func(e *observability.Event) bool { return e.Agent == "it's \\ odd?" }},
		"time":       {clickhouse.Filter{Since: since, Until: until}, func(e *observability.Event) bool { return e.At >= since && e.At < until }},
		"types": {
			clickhouse.Filter{Types: []observability.Type{"turn", "tool"}, Agent: "support"},
			func(e *observability.Event) bool {
				return (e.Type == "turn" || e.Type == "tool") && e.Agent == "support"
			},
		},
		"none": {clickhouse.Filter{Submission: "sub_none"}, func(*observability.Event) bool { return false }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := selected(events, test.include)
			if len(want) == 0 && name != "none" {
				t.Fatal("the traffic lacks the event")
			}
			got := read(t, db, test.filter)
			sameEvents(t, want, got)
			if !slices.IsSortedFunc(got, inOrder) {
				t.Error("got events out of order")
			}
		})
	}
}

// inOrder implements the order of Events.
func inOrder(a, b observability.Event) int {
	live := func(e *observability.Event) int64 {
		if e.Live() {
			return int64(e.At)
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Instance, b.Instance), cmp.Compare(live(&a), live(&b)),
		cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Index, b.Index))
}

// TestEventsEnd checks that a reader that stops or whose context ends does not affect the next one.
func TestEventsEnd(t *testing.T) {
	s := clickhousetest.Start(t)
	db, _, events := stored(t, s, 50)
	for range 12 { // More than the driver's connections.
		for _, err := range db.Events(t.Context(), clickhouse.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range db.Events(ctx, clickhouse.Filter{}) {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("Events with a canceled context: got %v", err)
			}
		}
	}
	if got := read(t, db, clickhouse.Filter{}); len(got) != len(events) {
		t.Errorf("%d events, want %d", len(got), len(events))
	}
	empty := open(t, options(t, s, s.Database(t)))
	for _, err := range empty.Events(t.Context(), clickhouse.Filter{}) {
		if !errors.Is(err, clickhouse.ErrNoSchema) {
			t.Errorf("Events without tables: got %v, want %v", err, clickhouse.ErrNoSchema)
		}
	}
}

// TestReadEnds checks that a read from a hung server ends with its context.
func TestReadEnds(t *testing.T) {
	s := clickhousetest.Start(t)
	_, o, _ := stored(t, s, 5)
	for _, o := range []clickhouse.Options{o, overHTTP(s, o)} {
		relay := newRelay(t, listen(t), o.Addresses[0])
		o.Addresses = []string{relay.address()}
		db := open(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		relay.hush(0, cancel)
		if _, err := db.Summary(ctx, stats.Filter{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Summary without a response, HTTP %v: got %v, want %v", o.HTTP, err, context.Canceled)
		}
	}
}

// TestSummary compares the SQL with the definitions, computed from the same events.
func TestSummary(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	db, o, events := stored(t, s, 300)
	web := open(t, overHTTP(s, o))
	for name, filter := range map[string]stats.Filter{
		"all":   {},
		"agent": {Agent: "it's \\ odd?"},
		"since": {Since: dayStart + 86_400_000},
		"range": {Agent: "triage", Since: dayStart + 3_600_000, Until: dayStart + 100_000_000},
		"none":  {Agent: "unknown"},
	} {
		want, err := stats.Summarize(each(events), filter)
		if err != nil {
			t.Fatal(err)
		}
		if name != "none" && (want.Submissions.Failed == 0 || want.Recovered == 0 || len(want.Tools) < 2 || want.CompactionErrors == 0) {
			t.Fatalf("%s: the traffic has no values: %+v", name, want)
		}
		for _, db := range []*clickhouse.Database{db, web} {
			got, err := db.Summary(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-definitions +sql):\n%s", name, diff)
			}
			if newest, err := db.Newest(t.Context()); err != nil || name == "all" && newest != got.Recent[0].Submission {
				t.Errorf("got newest submission %q, %v", newest, err)
			}
		}
	}
	if _, err := open(t, options(t, s, s.Database(t))).Summary(t.Context(), stats.Filter{}); !errors.Is(err, clickhouse.ErrNoSchema) {
		t.Errorf("Summary without tables: got %v, want %v", err, clickhouse.ErrNoSchema)
	}
}

func each(events []observability.Event) iter.Seq2[observability.Event, error] {
	return func(yield func(observability.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}
