package analytics_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// group holds the events with the same key.
type group struct {
	key    []any
	events []observability.Event
}

// grouped computes a row for each group of events. An event without a key belongs to none.
func grouped(events []observability.Event, key func(e *observability.Event) []any, row func(g *group) []any) [][]any {
	groups := map[string]*group{}
	for i := range events {
		k := key(&events[i])
		if k == nil {
			continue
		}
		name := fmt.Sprintf("%q", k)
		if groups[name] == nil {
			groups[name] = &group{key: k}
		}
		groups[name].events = append(groups[name].events, events[i])
	}
	var rows [][]any
	for _, g := range groups {
		if r := row(g); r != nil {
			rows = append(rows, append(slices.Clone(g.key), r...))
		}
	}
	return rows
}

// ordered sorts rows by columns, counted from 1; a negative one descends.
func ordered(rows [][]any, columns ...int) [][]any {
	slices.SortFunc(rows, func(a, b []any) int {
		for _, c := range columns {
			order := 0
			if c > 0 {
				order = compare(a[c-1], b[c-1])
			} else {
				order = compare(b[-c-1], a[-c-1])
			}
			if order != 0 {
				return order
			}
		}
		return 0
	})
	return rows
}

func compare(a, b any) int {
	switch a := a.(type) {
	case string:
		return cmp.Compare(a, b.(string))
	case int64:
		return cmp.Compare(a, b.(int64))
	case float64:
		return cmp.Compare(a, b.(float64))
	}
	panic(fmt.Sprintf("no order of %T", a))
}

// first returns the first n rows, reduced to their first columns.
func first(rows [][]any, n, columns int) [][]any {
	rows = rows[:min(n, len(rows))]
	for i := range rows {
		rows[i] = rows[i][:columns]
	}
	return rows
}

func payloads[P observability.Payload](g *group) []P {
	var out []P
	for _, e := range g.events {
		if p, ok := e.Payload.(P); ok {
			out = append(out, p)
		}
	}
	return out
}

func sum[P any, N int64 | float64](all []P, f func(P) N) N {
	var total N
	for _, p := range all {
		total += f(p)
	}
	return total
}

func count[P any](all []P, f func(P) bool) int64 {
	return sum(all, func(p P) int64 {
		if f(p) {
			return 1
		}
		return 0
	})
}

// distinct counts the values of f.
func distinct[P any, K comparable](all []P, f func(P) K) int64 {
	seen := map[K]bool{}
	for _, p := range all {
		seen[f(p)] = true
	}
	return int64(len(seen))
}

// quantiles returns the quantiles of f, nil without values.
func quantiles[P any](all []P, f func(P) int64, levels ...float64) []any {
	var values []int64
	for _, p := range all {
		values = append(values, f(p))
	}
	slices.Sort(values)
	var out []any
	for _, level := range levels {
		if len(values) == 0 {
			out = append(out, nil)
			continue
		}
		out = append(out, values[min(int(level*float64(len(values))), len(values)-1)])
	}
	return out
}

func at(t conversation.Time, layout string) string {
	return time.UnixMilli(int64(t)).UTC().Format(layout)
}

func day(e *observability.Event) string  { return at(e.At, "2006-01-02") }
func hour(e *observability.Event) string { return at(e.At, "2006-01-02 15:00:00") }
func moment(t conversation.Time) string  { return at(t, "2006-01-02 15:04:05.000") }

// used returns the usage of a turn, zero if it has none.
func used(t *observability.Turn) observability.Usage {
	if t.Response.Usage == nil {
		return observability.Usage{}
	}
	return *t.Response.Usage
}

func tokens(t *observability.Turn) int64    { return used(t).Total }
func dollars(t *observability.Turn) float64 { return used(t).Cost.Total }
