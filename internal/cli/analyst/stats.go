package analyst

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/table"
	"github.com/parleyrun/parley/observability/stats"
)

// maxHours is the number of printed hours, the last ones of a summary.
const maxHours = 24

// statsConfig holds the flags of "parley stats".
type statsConfig struct {
	source              sourceConfig
	agent, since, until string
	json                bool
}

func statsCommand(p *cli.Program) *cobra.Command {
	cfg := &statsConfig{source: sourceConfig{program: p}}
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Summarize events: outcomes, latencies, tokens, costs, errors",
		Long: "stats reads events and prints a summary: submissions by outcome, the newest ones with the reasons\n" +
			"of failures, quantiles of latencies, usage and cost of models by agent, calls of tools, types of\n" +
			"errors, and the last hours one by one.\n\n" +
			"It reads the ClickHouse or the file of the configuration, or the events of parley dev. The first\n" +
			"line names the source and the number of events. Times are in UTC, costs in US dollars. Latencies\n" +
			"of turns and tools include successes only, those of settlements all outcomes, and those of the\n" +
			"queue first attempts only.",
		Example: "  parley stats\n  parley stats --since 24h --agent assistant\n  parley stats --config /etc/parley.yaml --since 2026-11-01 --json\n" +
			"  parley stats --file events.jsonl",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.source.errOut = cmd.ErrOrStderr()
			return cfg.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cfg.source.flags(cmd)
	cmd.Flags().StringVar(&cfg.agent, "agent", "", "only events of this agent")
	cmd.Flags().StringVar(&cfg.since, "since", "", "only events since then: a duration before now, as 90m, 24h or 7d, or a date or time in UTC")
	cmd.Flags().StringVar(&cfg.until, "until", "", "only events before then, in the form of --since")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print one JSON object")
	return cmd
}

// summaryReport is the output of "parley stats --json".
type summaryReport struct {
	Source string            `json:"source"`
	Agent  string            `json:"agent,omitempty"`
	Since  conversation.Time `json:"since,omitempty"`
	Until  conversation.Time `json:"until,omitempty"`
	*stats.Summary
}

func (cfg *statsConfig) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	f := stats.Filter{Agent: cfg.agent}
	if f.Since, f.Until, err = period(cfg.since, cfg.until, time.Now()); err != nil {
		return err
	}
	from, err := cfg.source.open(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	s, err := from.summary(ctx, f)
	if err != nil {
		return err
	}
	if cfg.json {
		return printJSON(out, summaryReport{from.String(), f.Agent, f.Since, f.Until, s})
	}
	return printSummary(out, from.String(), f, s)
}

// printJSON prints a value as indented JSON.
func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printSummary prints a summary as tables.
func printSummary(out io.Writer, name string, f stats.Filter, s *stats.Summary) error {
	if _, err := fmt.Fprintln(out, "parley stats: "+name+selected(f)); err != nil {
		return err
	}
	if s.Events == 0 {
		hint := "Events arrive about a second after a message; parley events replay derives those of earlier messages."
		if f != (stats.Filter{}) {
			hint = "Omit --agent, --since or --until to see others."
		}
		_, err := fmt.Fprintf(out, "No events.\n%s\n", hint)
		return err
	}
	fmt.Fprintf(out, "%s events of %s, %s to %s UTC\n", cli.Grouped(s.Events), cli.Count(s.Conversations, "conversation"), utcTime(s.First), utcTime(s.Last))
	if line := incidents(s); line != "" {
		fmt.Fprintln(out, line)
	}
	width := cli.Width(out)
	for _, t := range []*table.Table{
		submissionTable(s), recentTable(s), latencyTable(s), modelTable(s), toolTable(s), errorTable(s), hourTable(s),
	} {
		t.Width = width
		if err := t.Print(out); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, cli.Fold(reasons(s), width)); err != nil {
		return err
	}
	if n := len(s.Hours); n > maxHours {
		fmt.Fprintf(out, "(the last %d of %d hours; --json has all)\n", maxHours, n)
	}
	return nil
}

// selected describes a filter.
func selected(f stats.Filter) string {
	var b strings.Builder
	if f.Agent != "" {
		fmt.Fprintf(&b, ", agent %s", f.Agent)
	}
	if f.Since != 0 {
		fmt.Fprintf(&b, ", since %s", utcTime(f.Since))
	}
	if f.Until != 0 {
		fmt.Fprintf(&b, ", before %s", utcTime(f.Until))
	}
	return b.String()
}

// incidents summarizes irregular events in a line.
func incidents(s *stats.Summary) string {
	var parts []string
	add := func(n int64, noun string) {
		if n > 0 {
			parts = append(parts, cli.Count(n, noun))
		}
	}
	add(s.Recovered, "recovered attempt")
	add(s.Recoveries, "recovery action")
	add(s.Fences, "fenced writer")
	add(s.Compactions, "compaction")
	add(s.CompactionErrors, "failed compaction")
	return strings.Join(parts, ", ")
}

func submissionTable(s *stats.Summary) *table.Table {
	t := table.New([]int{0}, "SUBMISSIONS", "COUNT", "SHARE OF SETTLED")
	n := s.Submissions
	t.Add("queued", cli.Number(n.Queued), "")
	for _, o := range []struct {
		name  string
		count int64
	}{{"completed", n.Completed}, {"failed", n.Failed}, {"aborted", n.Aborted}} {
		share := "-"
		if o.count > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(o.count)/float64(n.Settled()))
		}
		t.Add(o.name, cli.Number(o.count), share)
	}
	return t
}

// recentTable lists the newest submissions.
func recentTable(s *stats.Summary) *table.Table {
	t := table.New([]int{0, 1, 3}, "RECENT", "OF", "SUBMISSION", "OUTCOME", "TOOK", "TOKENS", "COST")
	t.Sparse, t.Spare, t.Text, t.Whole = true, []int{6, 5, 0, 4, 1}, 14, []int{2}
	for _, r := range s.Recent {
		took := ""
		if r.Outcome != "" {
			took = cli.Took(r.TotalMs)
		}
		of := r.Agent
		if r.Instance != "" {
			of += "/" + r.Instance
		}
		t.Add(utcTime(r.Begun)[len("2006-01-02 "):], cli.OneLine(of, 40), string(r.Submission), cmp.Or(r.Outcome, "under way"), took,
			cli.Number(r.Input+r.CacheRead+r.CacheWrite+r.Output), cli.Dollars(r.Cost))
	}
	return t
}

// reasons lists errors of the newest submissions. They are not truncated, because they contain the
// remedy.
func reasons(s *stats.Summary) string {
	var words []string
	count := map[string]int64{}
	for _, r := range s.Recent {
		if r.Outcome != string(conversation.OutcomeFailed) {
			continue
		}
		why := cli.OneLine(cmp.Or(r.Message, r.Error), 400)
		if count[why]++; count[why] == 1 {
			words = append(words, why)
		}
	}
	if len(words) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nWHY RECENT ONES FAILED\n")
	for _, why := range words {
		fmt.Fprintf(&b, "  %s  %s\n", cli.Number(count[why]), why)
	}
	return b.String()
}

func latencyTable(s *stats.Summary) *table.Table {
	t := table.New([]int{0}, "LATENCY", "COUNT", "P50", "P90", "P99", "MAX")
	t.Spare = []int{3, 4}
	for _, l := range []struct {
		name string
		stats.Latency
	}{{"admission", s.Admission}, {"queue", s.Queue}, {"first token", s.FirstToken}, {"turn", s.Turn}, {"settlement", s.Settlement}} {
		t.Add(append([]string{l.name, cli.Number(l.Count)}, quantiles(l.Latency)...)...)
	}
	return t
}

func quantiles(l stats.Latency) []string {
	if l.Count == 0 {
		return []string{"-", "-", "-", "-"}
	}
	return []string{cli.Took(l.P50), cli.Took(l.P90), cli.Took(l.P99), cli.Took(l.Max)}
}

func modelTable(s *stats.Summary) *table.Table {
	// Calls are cancelled while nodes drain or crash. Without any, the column is omitted.
	cut := slices.ContainsFunc(s.Models, func(r stats.ModelRow) bool { return r.CutOff > 0 })
	header := []string{"AGENT", "MODEL", "TURNS", "ERRORS", "RETRIES", "TOKENS IN", "OUT", "CACHE READ", "WRITE", "COST"}
	spare := []int{8, 7, 4, 3, 2, 6}
	if cut {
		header, spare = slices.Insert(header, 4, "CUT OFF"), []int{9, 8, 5, 4, 3, 2, 7}
	}
	t := table.New([]int{0, 1}, header...)
	t.Spare = spare
	rows := slices.Clone(s.Models)
	slices.SortStableFunc(rows, func(a, b stats.ModelRow) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Turns, a.Turns))
	})
	var sum stats.ModelRow
	for _, r := range rows {
		t.Add(modelCells(cli.OneLine(r.Agent, 40), cli.OneLine(r.Provider+"/"+r.Model, 60), r, cut)...)
		sum.Turns, sum.Errors, sum.CutOff, sum.Retries = sum.Turns+r.Turns, sum.Errors+r.Errors, sum.CutOff+r.CutOff, sum.Retries+r.Retries
		sum.Input, sum.Output, sum.Cost = sum.Input+r.Input, sum.Output+r.Output, sum.Cost+r.Cost
		sum.CacheRead, sum.CacheWrite = sum.CacheRead+r.CacheRead, sum.CacheWrite+r.CacheWrite
	}
	if len(rows) > 1 {
		t.Add(modelCells("all", "", sum, cut)...)
	}
	return t
}

func modelCells(agent, model string, r stats.ModelRow, cut bool) []string {
	cells := []string{
		agent, model, cli.Number(r.Turns), cli.Number(r.Errors), cli.Number(r.Retries),
		cli.Number(r.Input), cli.Number(r.Output), cli.Number(r.CacheRead), cli.Number(r.CacheWrite), cli.Dollars(r.Cost),
	}
	if cut {
		cells = slices.Insert(cells, 4, cli.Number(r.CutOff))
	}
	return cells
}

func toolTable(s *stats.Summary) *table.Table {
	t := table.New([]int{0}, "TOOL", "CALLS", "ERRORS", "P50", "P90", "P99", "MAX")
	t.Spare = []int{4, 5}
	rows := slices.Clone(s.Tools)
	slices.SortStableFunc(rows, func(a, b stats.ToolRow) int { return cmp.Compare(b.Calls, a.Calls) })
	for _, r := range rows {
		t.Add(append([]string{cli.OneLine(r.Name, 60), cli.Number(r.Calls), cli.Number(r.Errors)}, quantiles(r.Latency)...)...)
	}
	return t
}

func errorTable(s *stats.Summary) *table.Table {
	t := table.New([]int{0, 1}, "ERROR", "OF", "COUNT")
	rows := slices.Clone(s.Errors)
	slices.SortStableFunc(rows, func(a, b stats.ErrorRow) int { return cmp.Compare(b.Count, a.Count) })
	for _, r := range rows {
		of := strings.TrimSuffix(string(r.Event), "_settled")
		t.Add(cli.OneLine(cmp.Or(r.Type, "(no type)"), 60), of, cli.Number(r.Count))
	}
	return t
}

func hourTable(s *stats.Summary) *table.Table {
	t := table.New([]int{0}, "HOUR", "QUEUED", "COMPLETED", "FAILED", "ABORTED", "TURNS", "TOKENS IN", "OUT", "COST")
	t.Spare = []int{4, 1, 6, 7, 5}
	for _, r := range s.Hours[max(0, len(s.Hours)-maxHours):] {
		t.Add(utcTime(r.Hour)[:len("2006-01-02 15:04")], cli.Number(r.Queued), cli.Number(r.Completed), cli.Number(r.Failed), cli.Number(r.Aborted),
			cli.Number(r.Turns), cli.Number(r.Input), cli.Number(r.Output), cli.Dollars(r.Cost))
	}
	return t
}
