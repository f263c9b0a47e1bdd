package analyst

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/table"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/stats"
)

// traceConfig holds the flags of "parley trace".
type traceConfig struct {
	source sourceConfig
	json   bool
}

func traceCommand(p *cli.Program) *cobra.Command {
	cfg := &traceConfig{source: sourceConfig{program: p}}
	cmd := &cobra.Command{
		Use:   "trace [submission id]",
		Short: "Show the timeline of a submission as a tree, by default the newest",
		Long: "trace reads the events of one submission and prints its timeline as a tree: the wait in the queue,\n" +
			"every attempt, every call of a model and of a tool, waits for signals, tasks of subagents\n" +
			"and compactions, each with its start, duration, tokens and cost.\n\n" +
			"Costs and tokens of a node include its children; input tokens include those of the prompt cache.\n" +
			"The id is in the server's response to the message, and parley stats lists it; the default is the\n" +
			"newest submission. The sources are those of parley stats.",
		Example: "  parley trace\n  parley trace sub_01JABCDEFGHJKMNPQRSTVWXYZ0\n  parley trace sub_01JABCDEFGHJKMNPQRSTVWXYZ0 --config /etc/parley.yaml --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && strings.HasPrefix(args[0], "sub_") {
				return nil
			}
			return errors.New("trace takes the id of one submission, which begins with sub_: parley trace sub_…; it is submissionId in the response to a message; the default is the newest submission")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.source.errOut = cmd.ErrOrStderr()
			id := conversation.SubmissionID(strings.Join(args, ""))
			return cfg.run(cmd.Context(), id, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cfg.source.flags(cmd)
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print one JSON object")
	return cmd
}

// traceReport is the output of "parley trace --json".
type traceReport struct {
	Source string `json:"source"`
	*stats.Node
}

func (cfg *traceConfig) run(ctx context.Context, id conversation.SubmissionID, in io.Reader, out io.Writer) (err error) {
	from, err := cfg.source.open(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	if id == "" {
		if id, err = from.newest(ctx); err != nil {
			return err
		}
		if id == "" {
			return fmt.Errorf("%s has no submission yet; send a message first, whose events arrive about a second later, or name another source with --config, --file or --clickhouse", from)
		}
	}
	root, err := stats.Trace(from.trace(ctx, id), id)
	if errors.Is(err, stats.ErrNoEvents) {
		return fmt.Errorf("%s has no event of submission %s; check the id, which is in the server's response to the message, "+
			"and the source: --config, --file and --clickhouse name another; parley events replay restores missing events", from, id)
	}
	if err != nil {
		return err
	}
	if cfg.json {
		return printJSON(out, traceReport{from.String(), root})
	}
	return printTrace(out, from.String(), root)
}

// printTrace prints the timeline of a submission.
func printTrace(out io.Writer, name string, root *stats.Node) error {
	width := cli.Width(out)
	at, shown := utcTime(root.Start)+" UTC", label(root)
	if width > 0 { // untruncated texts are above
		at, shown = root.ID+"\n"+at, strings.TrimPrefix(shown, root.ID+" of ")
	}
	if _, err := fmt.Fprintf(out, "parley trace: %s, %s\n", name, at); err != nil {
		return err
	}
	t := table.New([]int{0, 6}, "STEP", "START", "TOOK", "TOKENS IN", "OUT", "COST", "NOTE")
	t.Width, t.Spare, t.Text = width, []int{4, 3, 1, 5}, 34
	addNode(t, root, root, "", "", shown)
	return t.Print(out)
}

// addNode adds a node and its children. first is the prefix of its line, rest the prefix of its
// children, and shown its label.
func addNode(t *table.Table, root, n *stats.Node, first, rest, shown string) {
	start, lasted := "", ""
	if n != root {
		start = "+" + cli.Took(max(int64(n.Start-root.Start), 0))
	}
	if n.DurationMs > 0 || n.State != stats.StateRunning && n.State != stats.StateLost && n.State != stats.StateQueued {
		lasted = cli.Took(n.DurationMs)
	}
	if n.Kind == stats.KindLog || n.Kind == stats.KindRecovery {
		lasted = ""
	}
	in, written, cost := "", "", ""
	if u := n.Usage; u != nil {
		in, written, cost = cli.Number(u.Input+u.CacheRead+u.CacheWrite), cli.Number(u.Output), cli.Dollars(u.Cost.Total)
	}
	t.Add(first+shown, start, lasted, in, written, cost, note(n))
	below := slices.Concat(n.Children, n.After)
	for i, c := range below {
		shown := label(c)
		if i >= len(n.Children) {
			shown += ", after the end"
		}
		if i == len(below)-1 {
			addNode(t, root, c, rest+"└─ ", rest+"   ", shown)
		} else {
			addNode(t, root, c, rest+"├─ ", rest+"│  ", shown)
		}
	}
}

// label describes a node, and its outcome unless it is the normal one.
func label(n *stats.Node) string {
	name, state := cli.OneLine(n.Name, 60), cli.OneLine(string(n.State), 20)
	s := ""
	switch n.Kind {
	case stats.KindSubmission:
		return n.ID + " of " + cmp.Or(name, "an agent") + ": " + state
	case stats.KindQueue:
		s = "queue"
	case stats.KindOperation:
		s = cmp.Or(name, "operation")
	case stats.KindRun:
		if s = "run"; n.Attempt > 0 {
			s = fmt.Sprintf("attempt %d", n.Attempt)
		}
		if n.Name != "" && n.Name != observability.EndSettled && n.State == stats.StateOK {
			s += ": " + name
		}
	case stats.KindRecovery, stats.KindLog:
		return name
	case stats.KindTurn:
		s = "turn " + name
	default:
		s = string(n.Kind) + " " + name
	}
	if n.State != stats.StateOK {
		s += ": " + state
	}
	return s
}

// note returns further details of a node.
func note(n *stats.Node) string {
	var parts []string
	if n.Kind == stats.KindSubmission && n.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("%d attempts", n.Attempt))
	}
	if t := n.Tree; t != nil {
		parts = append(parts, treeNote(t))
	}
	if n.Recovered {
		parts = append(parts, "after a loss")
	}
	if n.FirstTokenMs > 0 {
		parts = append(parts, "first token after "+cli.Took(n.FirstTokenMs))
	}
	if n.Retries > 0 {
		parts = append(parts, "retry "+fmt.Sprint(n.Retries))
	}
	if n.Dropped {
		parts = append(parts, "withdrawn")
	}
	if n.Kind == stats.KindPost && n.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", n.Attempt))
	}
	if n.Kind == stats.KindWait {
		parts = append(parts, waitNote(n)...)
	}
	// A submission repeats the error of its operation, so only the operation shows it.
	if n.Error != nil && n.Kind != stats.KindOperation {
		text := n.Error.Type
		if n.Error.Message != "" {
			text += ": " + n.Error.Message
		}
		parts = append(parts, cli.OneLine(text, 100))
	}
	return strings.Join(parts, ", ")
}

// treeNote returns the usage of a tree of dispatches, and its budget.
func treeNote(t *stats.Tree) string {
	s := fmt.Sprintf("tree of %d dispatched", t.Submissions)
	if t.MaxSubmissions > 0 {
		s = fmt.Sprintf("tree of %d of %d dispatched", t.Submissions, t.MaxSubmissions)
	}
	switch {
	case t.MaxDollars > 0:
		s += fmt.Sprintf(", %s of %s", cli.Dollars(t.Dollars), cli.Dollars(t.MaxDollars))
	case t.Dollars > 0:
		s += ", " + cli.Dollars(t.Dollars)
	}
	return s
}

// waitNote returns the signal that ended a wait, or its deadline.
func waitNote(n *stats.Node) []string {
	switch {
	case n.Signal != "":
		return []string{"signal " + string(n.Signal)}
	case n.State == stats.StateRunning && n.Until != 0:
		return []string{"until " + utcTime(n.Until) + " UTC"}
	}
	return nil
}
