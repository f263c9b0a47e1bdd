package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parleyrun/parley/internal/table"
)

// Side is one of two programs that are compared.
type Side struct {
	Program string    `json:"program"`
	Version string    `json:"version"`
	Reports []*Report `json:"reports"` // One per round.
}

// Comparison holds the reports of two programs under the same load, run in turn.
type Comparison struct {
	Old Side `json:"old"`
	New Side `json:"new"`
	// Errors are those of scenarios and runs, with round and program.
	Errors []string `json:"errors,omitempty"`
}

var sideNames = [2]string{"old", "new"}

func (c *Comparison) sides() [2]*Side { return [2]*Side{&c.Old, &c.New} }

// Compare runs two programs for some rounds, one after the other, with alternating order. It returns
// an error only if [Run] fails before anything was measured. Later errors are part of the comparison,
// and the remaining runs go on.
func Compare(ctx context.Context, o Options, before, after Side, rounds int) (*Comparison, error) {
	if rounds < 1 {
		return nil, fmt.Errorf("invalid number of rounds %d: want at least 1", rounds)
	}
	c := &Comparison{Old: before, New: after}
	for round := range rounds {
		for turn := range 2 {
			which := (round + turn) % 2
			side, name := c.sides()[which], fmt.Sprintf("round %d, %s", round+1, sideNames[which])
			if o.Progress != nil {
				fmt.Fprintf(o.Progress, "%s: %s\n", name, side.Program) // Progress is best effort.
			}
			o.Program, o.Version = side.Program, side.Version
			report, err := Run(ctx, Server, o)
			if report == nil {
				return nil, err
			}
			side.Reports = append(side.Reports, report)
			if ctx.Err() != nil { // Cancelled: scenarios not run are no errors.
				c.Errors = append(c.Errors, fmt.Sprintf("%s: %v", name, context.Cause(ctx)))
				return c, nil
			}
			for _, f := range report.failures() {
				c.Errors = append(c.Errors, name+": "+f)
			}
			if err != nil {
				c.Errors = append(c.Errors, fmt.Sprintf("%s: %v", name, err))
			}
		}
	}
	return c, nil
}

// WriteTable writes the changes as a table: a row per scenario and metric, with errors below. Metrics
// equal in every run are omitted.
func (c *Comparison) WriteTable(w io.Writer) error {
	head := c.Old.Reports[0].Machine.String()
	if c.Old.Reports[0].Quick {
		head += ", quick"
	}
	for i, side := range c.sides() {
		head += fmt.Sprintf("\n%s: %s, %s, runs: %d", sideNames[i], side.Program, side.Version, len(side.Reports))
	}
	rows := table.New([]int{0, 1, 7}, "scenario", "figure", "old", "min – max", "new", "min – max", "new/old", "apart")
	last := ""
	for _, r := range c.rows() {
		old, after := r.values[0], r.values[1]
		name, ratio := r.scenario, ""
		if middle := old.median(); middle != 0 && len(after) > 0 {
			ratio = short(after.median() / middle)
		}
		if name == last {
			name = ""
		}
		last = r.scenario
		rows.Add(slices.Concat([]string{name, r.metric}, old.cells(), after.cells(), []string{ratio, apart(old, after)})...)
	}
	return printed(w, head, rows, c.Errors)
}

// sample holds the values of one metric in all runs of a side, sorted.
type sample []float64

// median returns the middle value, or the mean of the two middle values, 0 if there is none.
func (s sample) median() float64 {
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func (s sample) cells() []string {
	if len(s) == 0 {
		return []string{"", ""}
	}
	return []string{short(s.median()), short(s[0]) + " – " + short(s[len(s)-1])}
}

// apart returns the direction of the change if the ranges do not overlap. A side with a single value
// gives none.
func apart(before, after sample) string {
	switch {
	case len(before) < 2 || len(after) < 2:
		return ""
	case after[len(after)-1] < before[0]:
		return "lower"
	case after[0] > before[len(before)-1]:
		return "higher"
	}
	return ""
}

// row is one metric of a scenario on both sides.
type row struct {
	scenario, metric string
	values           [2]sample
}

// rows returns the metrics in the order of the scenarios, without those that never change.
func (c *Comparison) rows() (rows []row) {
	for side, of := range c.sides() {
		for _, report := range of.Reports {
			for _, s := range report.Scenarios {
				for _, f := range s.compared() {
					i := slices.IndexFunc(rows, func(r row) bool { return r.scenario == s.Name && r.metric == f.Name })
					if i < 0 {
						i = len(rows)
						rows = append(rows, row{scenario: s.Name, metric: f.Name})
					}
					rows[i].values[side] = append(rows[i].values[side], f.Value)
				}
			}
		}
	}
	order := Server.Names()
	slices.SortStableFunc(rows, func(a, b row) int { return slices.Index(order, a.scenario) - slices.Index(order, b.scenario) })
	return slices.DeleteFunc(rows, func(r row) bool {
		for _, s := range r.values {
			slices.Sort(s)
		}
		all := slices.Concat(r.values[:]...)
		return len(r.values[0]) > 0 && len(r.values[1]) > 0 && slices.Min(all) == slices.Max(all)
	})
}

// compared returns the metrics of a scenario that a comparison contains, with units in their names.
func (s *Scenario) compared() (all []Metric) {
	shown := []string{"p50 ms", "p99 ms", "per s", "CPU s", "RSS MB"}
	for i, v := range s.numbers() {
		if name := headings()[i]; v != nil && slices.Contains(shown, name) {
			all = append(all, Metric{Name: name, Value: *v})
		}
	}
	for _, f := range s.Metrics {
		all = append(all, Metric{Name: strings.TrimSpace(f.Name + " " + f.Unit), Value: f.Value})
	}
	return all
}
