package eventsrun_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// metrics holds a node's event metrics.
type metrics struct {
	member  string
	shipped int // durable events in the database
	waiting int // in memory
	behind  int // conversations
	lost    int // logs
	stored  int // events, durable and live
	emitted int // live events
	dropped int // live events
	failing bool
	fails   int // writes
	busy    int // conversations
}

func (n *node) scrape(ctx context.Context) (metrics, error) {
	body, err := n.Get(ctx, "/metrics")
	if err != nil {
		return metrics{}, fmt.Errorf("metrics of %v: %w", n, err)
	}
	m, err := parseMetrics(string(body))
	if err != nil {
		return metrics{}, fmt.Errorf("metrics of %v: %w", n, err)
	}
	return m, nil
}

// live returns the live events counted as stored, once none are in flight.
func (m metrics) live() int { return m.stored - m.shipped }

// underWay returns the live events neither stored nor dropped.
func (m metrics) underWay() int { return m.emitted - m.live() - m.dropped }

// parseMetrics reads the needed metrics of the Prometheus text format. It avoids regular expressions,
// which took a third of the test's time.
func parseMetrics(text string) (m metrics, err error) {
	sums := map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if !strings.HasPrefix(line, "parley_") || at < 0 {
			continue
		}
		name, labels, _ := strings.Cut(line[:at], "{")
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return m, fmt.Errorf("line %q: %w", line, err)
		}
		if name == "parley_info" {
			m.member = label(labels, "member")
		}
		// A node also counts events of agents, in a separate sink.
		if sink := label(labels, "sink"); sink == "" || sink == "clickhouse" {
			sums[name] += int(v)
		}
	}
	var failing int
	for name, field := range map[string]*int{
		"parley_events_shipped_total": &m.shipped, "parley_events_waiting": &m.waiting, "parley_events_behind": &m.behind,
		"parley_events_lost_total": &m.lost, "parley_events_stored_total": &m.stored, "parley_events_failures_total": &m.fails,
		"parley_events_failing": &failing, "parley_events_emitted_total": &m.emitted, "parley_pending": &m.busy,
	} {
		n, ok := sums[name]
		if !ok {
			return m, fmt.Errorf("metric %s is missing", name)
		}
		*field = n
	}
	// The metric is missing as long as nothing was dropped.
	m.dropped, m.failing = sums["parley_events_dropped_total"], failing != 0
	if m.member == "" {
		return m, fmt.Errorf("metric with the incarnation is missing")
	}
	return m, nil
}

func label(labels, name string) string {
	_, value, _ := strings.Cut(labels, name+`="`)
	value, _, _ = strings.Cut(value, `"`)
	return value
}

func TestParseMetrics(t *testing.T) {
	const text = "# HELP parley_pending Conversations.\n" +
		"parley_info{address=\"127.0.0.1:1\",member=\"m1\",version=\"v\"} 1\nparley_pending 3\n" +
		"parley_events_shipped_total 1.5e+06\nparley_events_waiting 4\nparley_events_behind 5\nparley_events_lost_total 0\n" +
		"parley_events_stored_total{sink=\"clickhouse\"} 1.500009e+06\nparley_events_stored_total{sink=\"agents\"} 70\nparley_events_failures_total{sink=\"clickhouse\"} 7\n" +
		"parley_events_failing{sink=\"clickhouse\"} 1\nparley_events_emitted_total{sink=\"clickhouse\"} 16\n" +
		"parley_events_dropped_total{sink=\"clickhouse\",type=\"log\"} 2\nparley_events_dropped_total{sink=\"clickhouse\",type=\"text_delta\"} 3\n"
	got, err := parseMetrics(text)
	want := metrics{member: "m1", shipped: 1_500_000, waiting: 4, behind: 5, stored: 1_500_009, emitted: 16, dropped: 5, failing: true, fails: 7, busy: 3}
	if err != nil || got != want || got.live() != 9 || got.underWay() != 2 {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := parseMetrics(strings.ReplaceAll(text, "parley_events_waiting", "parley_other")); err == nil {
		t.Error("parseMetrics without a required metric: got no error")
	}
}
