package clickhouse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
)

const hourMs = 3_600_000

// counts are the rows of an aggregate: a text key and numbers.
type counts map[string][]int64

func (f counts) add(key string, values ...int64) {
	if f[key] == nil {
		f[key] = make([]int64, len(values))
	}
	for i, v := range values {
		f[key][i] += v
	}
}

// recount computes every aggregate from the events.
type recount struct {
	usage, latency, outcomes, queue, recoveries, active counts

	took map[string][]int64
	seen map[string]bool
}

func newRecount(events []observability.Event) *recount {
	r := &recount{
		usage: counts{}, latency: counts{}, outcomes: counts{}, queue: counts{}, recoveries: counts{}, active: counts{},
		took: map[string][]int64{}, seen: map[string]bool{},
	}
	for _, e := range events {
		place := fmt.Sprintf("%d %s", e.At/hourMs*hourMs, e.Agent)
		if !e.Live() {
			r.active.add(place, r.first(place, e.Instance), r.first(place, string(e.Submission)), 1)
		}
		r.submission(place, e.Payload)
		r.work(place, e.Payload)
	}
	for key, ms := range r.took {
		slices.Sort(ms)
		n := float64(len(ms))
		r.latency[key] = []int64{int64(n), ms[int(0.5*n)], ms[int(0.9*n)], ms[int(0.99*n)], ms[len(ms)-1]}
	}
	return r
}

// first returns 1 for the first occurrence of an id at a place, else 0.
func (r *recount) first(place, id string) int64 {
	if r.seen[place+id] {
		return 0
	}
	r.seen[place+id] = true
	return 1
}

func (r *recount) measure(place, measure, name string, ms int64) {
	key := fmt.Sprintf("%s %s %s", place, measure, name)
	r.took[key] = append(r.took[key], ms)
}

func (r *recount) submission(place string, p observability.Payload) {
	switch p := p.(type) {
	case *observability.SubmissionQueued:
		r.queue.add(place, 1, 0, 0, 0)
	case *observability.SubmissionRunning:
		if !p.Resumed {
			r.queue.add(place, 0, 1, 0, p.QueuedMs)
			r.measure(place, "queue", "", p.QueuedMs)
		} else {
			r.queue.add(place, 0, 0, 0, 0)
		}
		if p.Recovered {
			r.recoveries.add(place, 1, 0, 0)
		}
	case *observability.SubmissionRecovery:
		r.recoveries.add(place, 0, 1, truth(p.Fenced))
	case *observability.SubmissionSettled:
		kind := ""
		if p.Error != nil {
			kind = p.Error.Type
		}
		r.outcomes.add(fmt.Sprintf("%s %s %s", place, p.Outcome, kind), 1, int64(p.Attempt))
		r.queue.add(place, 0, 0, 1, 0)
		r.measure(place, "settlement", "", p.TotalMs)
		if p.AdmissionMs > 0 {
			r.measure(place, "admission", "", p.AdmissionMs)
		}
	}
}

func (r *recount) work(place string, p observability.Payload) {
	switch p := p.(type) {
	case *observability.Turn:
		u := observability.Usage{}
		if p.Response.Usage != nil {
			u = *p.Response.Usage
		}
		r.usage.add(place+" anthropic "+p.Request.Model, 1, truth(p.IsError), int64(p.Retries),
			u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning, u.Total, int64(u.Cost.Total*1024))
		if p.FirstTokenMs > 0 {
			r.measure(place, "first_token", p.Request.Model, p.FirstTokenMs)
		}
		if !p.IsError && !p.CutOff() {
			r.measure(place, "turn", p.Request.Model, p.DurationMs)
		}
	case *observability.Tool:
		if !p.IsError {
			r.measure(place, "tool", p.ToolName, p.DurationMs)
		}
	}
}

// TestAggregates compares every view with the events.
func TestAggregates(t *testing.T) {
	s := clickhousetest.Start(t)
	db, o, events := stored(t, s, 300)
	if err := db.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := newRecount(events)
	const place = "toString(toUnixTimestamp(hour) * 1000) || ' ' || agent"
	for _, test := range []struct {
		want  counts
		query string
	}{
		{want.usage, place + " || ' ' || provider || ' ' || model, [turns, errors, retried, input, output, cache_read, cache_write, reasoning, total, toUInt64(cost_usd * 1024)] FROM usage_hourly"},
		{want.latency, place + " || ' ' || measure || ' ' || name, [n, p50, p90, p99, slowest] FROM latency_hourly"},
		{want.outcomes, place + " || ' ' || outcome || ' ' || error_type, [submissions, attempts] FROM outcomes_hourly"},
		{want.queue, place + ", [admitted, begun, settled, waited_ms] FROM queue_hourly"},
		{want.recoveries, place + ", [recovered_attempts, recoveries, fences] FROM recoveries_hourly"},
		{want.active, place + ", [conversations, submissions, durable_events] FROM active_hourly"},
	} {
		if len(test.want) < 10 {
			t.Fatalf("the traffic has no rows for %s", test.query)
		}
		if diff := cmp.Diff(test.want, readCounts(t, s, o, test.query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.query, diff)
		}
	}
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// readCounts reads the rows of a query: a key and an array of numbers.
func readCounts(t *testing.T, s *clickhousetest.Server, o clickhouse.Options, query string) counts {
	t.Helper()
	query = "SELECT " + strings.Replace(strings.Replace(query, ", [", ", CAST([", 1), "] FROM", "] AS Array(Int64)) FROM", 1)
	rows, err := direct(t, s, o.Database).Query(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	got := counts{}
	for rows.Next() {
		var key string
		var values []int64
		if err := rows.Scan(&key, &values); err != nil {
			t.Fatal(err)
		}
		if got[key] != nil {
			t.Errorf("%s: duplicate key", key)
		}
		got[key] = values
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}
