package bench

import (
	"context"
	"encoding/json"
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
	Reports []*Report `json:"reports"` // One of each round.
}

// Comparison is what two programs showed under the same load, in turns.
type Comparison struct {
	Old Side `json:"old"`
	New Side `json:"new"`
	// Errors are those of scenarios and runs, with their round and program.
	Errors []string `json:"errors,omitempty"`
}

// Compare runs two programs for some rounds, one after the other, first one of them and then
// the other one first. Its errors are those of [Run] before anything was measured; what
// fails then is told in the comparison, and the rest goes on.
func Compare(ctx context.Context, o Options, before, after Side, rounds int) (*Comparison, error) {
	if rounds < 1 {
		return nil, fmt.Errorf("%d rounds are none", rounds)
	}
	c := &Comparison{Old: before, New: after}
	for round := range rounds {
		for turn := range 2 {
			side, name := &c.Old, "old"
			if (round+turn)%2 == 1 {
				side, name = &c.New, "new"
			}
			name = fmt.Sprintf("round %d, %s", round+1, name)
			if o.Progress != nil {
				fmt.Fprintf(o.Progress, "%s: %s\n", name, side.Program) // Nobody depends on it.
			}
			o.Program, o.Version = side.Program, side.Version
			report, err := Run(ctx, o)
			if report == nil {
				return nil, err
			}
			side.Reports = append(side.Reports, report)
			if ctx.Err() != nil { // What it has left out is no news.
				c.Errors = append(c.Errors, fmt.Sprintf("%s: %v", name, context.Cause(ctx)))
				return c, nil
			}
			c.fail(name, report, err)
		}
	}
	return c, nil
}

// fail keeps what failed in a run.
func (c *Comparison) fail(name string, report *Report, err error) {
	for _, s := range report.Scenarios {
		if s.Error != "" {
			c.Errors = append(c.Errors, fmt.Sprintf("%s: %s failed: %s", name, s.Name, s.Error))
		}
	}
	if err != nil {
		c.Errors = append(c.Errors, fmt.Sprintf("%s: %v", name, err))
	}
}

// WriteJSON writes all reports for programs.
func (c *Comparison) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// WriteTable writes for people what has changed: a row per scenario and figure, with errors
// below. Figures that were the same in every run are left out.
func (c *Comparison) WriteTable(w io.Writer) error {
	head := c.Old.Reports[0].Machine.String()
	if c.Old.Reports[0].Quick {
		head += ", quick"
	}
	for name, side := range c.sides() {
		head += fmt.Sprintf("\n%s: %s, %s, runs: %d", name, side.Program, side.Version, len(side.Reports))
	}
	if _, err := fmt.Fprintln(w, head); err != nil {
		return err
	}
	rows := table.New([]int{0, 1, 7}, "scenario", "figure", "old", "min – max", "new", "min – max", "new/old", "apart")
	last := ""
	for _, r := range c.rows() {
		cells := []string{r.scenario, r.figure, r.old.middle(), r.old.spread(), r.new.middle(), r.new.spread(), "", apart(r.old, r.new)}
		if old := r.old.median(); old != 0 && len(r.new) > 0 {
			cells[6] = short(r.new.median() / old)
		}
		if r.scenario == last {
			cells[0] = ""
		}
		last = r.scenario
		rows.Add(cells...)
	}
	if err := rows.Print(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.Join(append(c.Errors, ""), "\n"))
	return err
}

// sides calls a loop with the old one and then with the new one.
func (c *Comparison) sides() func(yield func(string, *Side) bool) {
	return func(yield func(string, *Side) bool) { _ = yield("old", &c.Old) && yield("new", &c.New) }
}

// sample are the values of one figure in all runs of a side, sorted.
type sample []float64

// median is the middle value, or the mean of the two in the middle, 0 without any.
func (s sample) median() float64 {
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func (s sample) middle() string {
	if len(s) == 0 {
		return ""
	}
	return short(s.median())
}

func (s sample) spread() string {
	if len(s) == 0 {
		return ""
	}
	return short(s[0]) + " – " + short(s[len(s)-1])
}

// apart says where the new values are if none of them is among the old ones. A single
// value of a side says nothing.
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

// row is one figure of a scenario on both sides.
type row struct {
	scenario, figure string
	old, new         sample
}

// rows returns the figures in the order of the scenarios, without those that never change.
func (c *Comparison) rows() []row {
	var rows []row
	for _, side := range c.sides() {
		for _, report := range side.Reports {
			for _, s := range report.Scenarios {
				for _, f := range s.compared() {
					i := slices.IndexFunc(rows, func(r row) bool { return r.scenario == s.Name && r.figure == f.Name })
					if i < 0 {
						i = len(rows)
						rows = append(rows, row{scenario: s.Name, figure: f.Name})
					}
					into := &rows[i].old
					if side == &c.New {
						into = &rows[i].new
					}
					*into = append(*into, f.Value)
				}
			}
		}
	}
	order := Names()
	slices.SortStableFunc(rows, func(a, b row) int { return slices.Index(order, a.scenario) - slices.Index(order, b.scenario) })
	return slices.DeleteFunc(rows, func(r row) bool {
		slices.Sort(r.old)
		slices.Sort(r.new)
		all := slices.Concat(r.old, r.new)
		return len(r.old) > 0 && len(r.new) > 0 && slices.Min(all) == slices.Max(all)
	})
}

// compared returns the figures of a scenario that a comparison shows, with their units in
// their names.
func (s *Scenario) compared() []Figure {
	var all []Figure
	add := func(name string, value float64) { all = append(all, Figure{Name: name, Value: value}) }
	if l := s.Latency; l != nil {
		add("p50 ms", l.P50)
		add("p99 ms", l.P99)
	}
	if s.PerSecond > 0 {
		add("per s", s.PerSecond)
	}
	if s.ServerCPU != nil {
		add("CPU s", *s.ServerCPU)
	}
	if s.Memory != nil {
		add("RSS MB", float64(s.Memory.RSS)/1e6)
	}
	for _, f := range s.Figures {
		add(strings.TrimSpace(f.Name+" "+f.Unit), f.Value)
	}
	return all
}
