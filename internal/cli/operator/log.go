package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/inspect"
)

// Exit codes of "parley log verify" and "parley log repair".
const (
	exitRepairable = cli.ExitRepairable
	exitCorruption = cli.ExitCorruption
)

// logConfig holds the flags of "parley log".
type logConfig struct {
	program         *cli.Program
	place           *cli.Place
	agent, id, conv string // the conversation; all empty means every one
	from, to        int64
	json, write     bool
	cut             bool
}

func logCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look into the logs of a bucket, check them, repair them",
	}
	cmd.AddCommand(logDumpCommand(p), logVerifyCommand(p), logRepairCommand(p), logQuarantineCommand(p))
	return cmd
}

// bucketFlags adds the flags that name a bucket and a conversation in it.
func (cfg *logConfig) bucketFlags(cmd *cobra.Command) {
	cfg.place = cli.NewPlace(cfg.program, cmd, "the bucket", true)
	cmd.Flags().StringVar(&cfg.agent, "agent", "", "with --id: only this conversation of this agent")
	cmd.Flags().StringVar(&cfg.id, "id", "", "with --agent: only the conversation with this id")
	cmd.Flags().StringVar(&cfg.conv, "conversation", "", "only the conversation with this key, 32 digits as they stand in object keys")
	cmd.MarkFlagsRequiredTogether("agent", "id")
	cmd.MarkFlagsMutuallyExclusive("agent", "conversation")
	cli.RenamedFlag(cmd, "conv", "conversation")
}

func logDumpCommand(p *cli.Program) *cobra.Command {
	cfg := &logConfig{program: p}
	cmd := &cobra.Command{
		Use:   "dump [object key]",
		Short: "Print what an object holds, or the log of a conversation",
		Long: "dump prints one object of the bucket as lines of JSON: first a line that says what it is,\n" +
			"then what it holds, records as they are stored. Of an attachment it prints size and digest.\n\n" +
			"With --agent and --id, or --conversation, it prints the log of that conversation instead, wherever\n" +
			"its batches lie: for each a line about the batch, then its records.\n\n" +
			"Of an object or a log that is damaged it prints what can be read, before and behind the damage,\n" +
			"and ends with exit code 1. Nothing is changed. It may run next to servers.",
		Example: "  parley log dump format.json\n  parley log dump --agent assistant --id hello | jq 'select(.type==\"delta\").text'\n" +
			"  parley log dump --config parley.yaml --agent assistant --id hello --from 100 --to 110",
		Args: cli.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cfg.dump(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().Int64Var(&cfg.from, "from", 0, "first batch of the conversation")
	cmd.Flags().Int64Var(&cfg.to, "to", -1, "last batch of the conversation; -1 is its last")
	return cmd
}

func logVerifyCommand(p *cli.Program) *cobra.Command {
	cfg := &logConfig{program: p}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that what is stored is whole",
		Long: "verify reads everything in the bucket, or of one conversation: that every batch proves its\n" +
			"hash and follows the one before, that segments, checkpoints, pages and attachments are what\n" +
			"their names say, that nothing is missing and what nobody needs. It prints what it finds:\n\n" +
			"  damage      something is lost, or will be; it says what and where\n" +
			"  repairable  nothing is lost, and \"parley log repair\" mends it\n" +
			"  note        worth knowing; leftovers, which cost space and nothing else, are counted in one line\n\n" +
			"Nothing is changed. It may run next to servers: what changes meanwhile is\n" +
			"looked at again. A server keeps merged segments for its readers for some minutes: such\n" +
			"leftovers go by themselves.\n\n" +
			"Exit code: 0 nothing but notes, 1 something repairable, 2 damage, 3 it could not be found\n" +
			"out, 75 a server has the folder and offers no socket to read it.",
		Example: "  parley log verify\n  parley log verify --config /etc/parley.yaml --json\n  parley log verify --agent assistant --id hello",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cfg.verify(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print findings as lines of JSON, and last the counts")
	return cmd
}

func logRepairCommand(p *cli.Program) *cobra.Command {
	cfg := &logConfig{program: p}
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Mend what can be mended without a guess",
		Long: "repair looks as verify does and says what it would do; with --write it does it. It mends\n\n" +
			"  a lost head           written again\n" +
			"  a lost checkpoint     the log has everything, and is folded\n" +
			"  a leftover            a claim, checkpoint or page that nobody names, a segment whose batches\n" +
			"                        other segments hold: deleted\n" +
			"  an unreadable batch   that a segment holds: deleted, or written again\n\n" +
			"and nothing else. A conversation that has any damage beyond is left as it is. One that is\n" +
			"named, was quarantined and has none left is put back.\n\n" +
			"With --truncate, and one conversation, it cuts the end off a log that cannot be read to it: from\n" +
			"the first batch on that is damaged or missing. It says what is lost: batches, and admissions\n" +
			"and settlements in them as far as they can be read. What is cut off is kept in the folder\n" +
			"cut/ of the conversation. Submissions whose settlement is lost are worked on again. Restore\n" +
			"the objects from a copy instead if you have one.\n\n" +
			"With --write no server may use the bucket. A folder is locked by its server; over an\n" +
			"endpoint repair refuses while it sees a heartbeat, but a server that hangs shows none:\n" +
			"stop them all. Without --write it may run next to them.\n\n" +
			"Exit code: 0 nothing is left to do, 1 something would be mended with --write, 2 damage is\n" +
			"left, 3 it was not finished, 75 a server uses the bucket.",
		Example: "  parley log repair\n  parley log repair --write\n  parley log repair --config parley.yaml --agent assistant --id hello --write\n" +
			"  parley log repair --agent assistant --id hello --truncate",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.cut {
				return cfg.cutOff(cmd.Context(), cmd.OutOrStdout())
			}
			return cfg.repair(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.write, "write", false, "make the changes")
	cmd.Flags().BoolVar(&cfg.cut, "truncate", false, "cut the damaged end off the log of one conversation, which loses what is listed")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print findings as lines of JSON, and last the counts")
	return cmd
}

// key returns the key of the conversation that the flags name, "" if they name none.
func (cfg *logConfig) key() (conversation.Key, error) {
	switch {
	case cfg.conv != "":
		if storage.CheckConv(conversation.Key(cfg.conv)) != nil {
			return "", cli.Usage(fmt.Errorf("--conversation %q is no key of a conversation: it has 32 hexadecimal digits; or use --agent and --id", cfg.conv))
		}
		return conversation.Key(cfg.conv), nil
	case cfg.agent != "":
		return conversation.Address{Agent: cfg.agent, ID: cfg.id}.Key(), nil
	}
	return "", nil
}

// checking calls with, for writing if the flags ask for it. A bucket that cannot be opened is not a
// finding, so the error has the exit code [cli.ExitUnknown].
func (cfg *logConfig) checking(use func(at config.Bucket, b storage.Bucket) error) error {
	opened := false
	err := cfg.with(cfg.write, func(at config.Bucket, b storage.Bucket) error {
		opened = true
		return use(at, b)
	})
	var exit *cli.ExitError
	if err != nil && !opened && !errors.As(err, &exit) {
		return &cli.ExitError{Code: cli.ExitUnknown, Err: err}
	}
	return err
}

// with opens the bucket while use runs. Without write, no byte of a folder changes.
func (cfg *logConfig) with(write bool, use func(at config.Bucket, b storage.Bucket) error) (err error) {
	conf, _, err := cfg.place.Find("bucket")
	if err != nil {
		return err
	}
	at := conf.Bucket
	open := cli.OpenForReading
	if write {
		open = cli.OpenExisting
	}
	bucket, closeBucket, err := open(at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBucket()) }()
	return use(at, bucket)
}

func (cfg *logConfig) dump(ctx context.Context, args []string, out io.Writer) error {
	conv, err := cfg.key()
	if err != nil {
		return err
	}
	if (conv == "") == (len(args) == 0) {
		return cli.Usage(errors.New("dump takes one object key, or --agent and --id, or --conversation; parley log dump --help has examples"))
	}
	return cfg.with(false, func(at config.Bucket, b storage.Bucket) error {
		if conv == "" {
			err = inspect.Dump(ctx, b, args[0], out)
		} else {
			err = inspect.DumpLog(ctx, b, conv, cfg.from, cfg.to, out)
		}
		return cfg.explain(at, err)
	})
}

// explain adds a remedy to an error.
func (cfg *logConfig) explain(at config.Bucket, err error) error {
	var e *storage.Error
	switch {
	case errors.Is(err, inspect.ErrNoConversation):
		what := "conversation " + cfg.conv
		if cfg.conv == "" {
			what = fmt.Sprintf("conversation %q of agent %q", cfg.id, cfg.agent)
		}
		return fmt.Errorf("%s has no %s; ids and agents are what they are in URLs and files", at.Place(), what)
	case errors.As(err, &e) && !errors.Is(err, storage.ErrNotFound) && at.Endpoint != "":
		return at.Explain(err)
	}
	return err
}

func (cfg *logConfig) verify(ctx context.Context, out io.Writer) error {
	conv, err := cfg.key()
	if err != nil {
		return err
	}
	return cfg.checking(func(at config.Bucket, b storage.Bucket) error {
		p := &findingPrinter{out: out, json: cfg.json}
		sum, err := inspect.Verify(ctx, b, inspect.Scope{Conv: conv}, nil, func(f inspect.Finding) { p.print(f, f, "", nil) })
		if err != nil {
			return &cli.ExitError{Code: cli.ExitUnknown, Err: cfg.explain(at, err)}
		}
		p.sum("verify", at, sum, "")
		switch {
		case p.err != nil:
			return &cli.ExitError{Code: cli.ExitUnknown, Err: fmt.Errorf("print findings: %w", p.err)}
		case sum.Corruption > 0:
			p.offerCut(conv)
			return &cli.ExitError{Code: exitCorruption}
		case sum.Repairable > 0:
			return &cli.ExitError{Code: exitRepairable}
		}
		return nil
	})
}

func (cfg *logConfig) repair(ctx context.Context, out io.Writer) error {
	conv, err := cfg.key()
	if err != nil {
		return err
	}
	return cfg.checking(func(at config.Bucket, b storage.Bucket) error {
		p := &findingPrinter{out: out, json: cfg.json}
		sum, err := inspect.Repair(ctx, b, inspect.Scope{Conv: conv}, &inspect.RepairOptions{Write: cfg.write},
			func(a inspect.Action) { p.print(a, a.Finding, a.Outcome, a.Steps) })
		var served *inspect.ServedError
		switch {
		case errors.As(err, &served):
			return &cli.ExitError{Code: cli.ExitRefused, Err: fmt.Errorf("%s: %w", at.Place(), err)}
		case err != nil:
			return &cli.ExitError{Code: cli.ExitUnknown, Err: cfg.explain(at, err)}
		}
		p.sum("repair", at, sum, mending(sum, cfg.write))
		switch {
		case p.err != nil:
			return &cli.ExitError{Code: cli.ExitUnknown, Err: fmt.Errorf("print findings: %w", p.err)}
		case sum.Corruption > 0:
			p.offerCut(conv)
			return &cli.ExitError{Code: exitCorruption}
		case sum.Planned > 0:
			return &cli.ExitError{Code: exitRepairable}
		case !cfg.write || conv == "":
			return nil
		}
		outcome := isMended
		if sum.Repairable == 0 {
			outcome = stillQuarantined
		}
		if err := outcome(ctx, b, conv, p); err != nil {
			return &cli.ExitError{Code: cli.ExitUnknown, Err: cfg.explain(at, err)}
		}
		return nil
	})
}

// offerCut prints the remedy for corruption that repair cannot fix.
func (p *findingPrinter) offerCut(conv conversation.Key) {
	if p.json {
		return
	}
	which := "--conversation <key>"
	if conv != "" {
		which = "--conversation " + string(conv)
	}
	p.write(fmt.Sprintf("restore the damaged objects from a copy; without one, parley log repair --truncate %s shows what cutting the log off before the damage loses\n", which))
}

// repairs counts the applied or planned repairs.
func mending(s inspect.Summary, write bool) string {
	switch {
	case write:
		return fmt.Sprintf(", %d mended", s.Mended)
	case s.Planned > 0:
		return fmt.Sprintf(", %d to be mended with --write", s.Planned)
	}
	return ", nothing to mend"
}

// findingPrinter prints findings as text or JSON.
type findingPrinter struct {
	out       io.Writer
	json      bool
	leftovers map[inspect.Kind]int64 // never deleted automatically, counted for the text form
	err       error                  // first write error
}

func (p *findingPrinter) write(s string) {
	if _, err := io.WriteString(p.out, s); p.err == nil {
		p.err = err
	}
}

// print prints a finding; v is its JSON form.
func (p *findingPrinter) print(v any, f inspect.Finding, o inspect.Outcome, steps []string) {
	if p.json {
		p.value(v)
		return
	}
	if f.Leftover() && o == "" {
		if p.leftovers == nil {
			p.leftovers = map[inspect.Kind]int64{}
		}
		p.leftovers[f.Kind]++
		return
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s", f.Severity, f.Kind)
	if f.Key != "" {
		fmt.Fprintf(&s, " at %s", f.Key)
	}
	if f.Agent != "" {
		fmt.Fprintf(&s, "\n  conversation %q of agent %q", f.ID, f.Agent)
	}
	fmt.Fprintf(&s, "\n  %s\n", f.Text)
	switch {
	case o == inspect.Refused:
		s.WriteString("  refused: nothing of what has damage is changed\n")
	case len(steps) > 0:
		fmt.Fprintf(&s, "  %s: %s\n", o, strings.Join(steps, "; "))
	}
	p.write(s.String())
}

func (p *findingPrinter) value(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		p.err = errors.Join(p.err, err)
		return
	}
	p.write(string(line) + "\n")
}

// printLeftovers prints the count of each kind.
func (p *findingPrinter) printLeftovers() {
	for _, kind := range slices.Sorted(maps.Keys(p.leftovers)) {
		p.write(fmt.Sprintf("note %s: %s\n  they cost space and nothing else; parley log repair --write deletes them\n", kind, cli.Count(p.leftovers[kind], "leftover")))
	}
}

// sum prints the scope of the check and its counts, followed by more.
func (p *findingPrinter) sum(command string, at config.Bucket, s inspect.Summary, more string) {
	p.printLeftovers()
	if p.json {
		p.value(struct {
			Summary inspect.Summary `json:"summary"`
		}{s})
		return
	}
	p.write(fmt.Sprintf("parley log %s: %s: %s, %s, %s, %s, %s\n%s, %s, %s%s\n", command, at.Place(),
		cli.Count(s.Conversations, "conversation"), cli.Count(s.Batches, "batch"), cli.Count(s.Segments, "segment"),
		cli.Count(s.Checkpoints, "checkpoint"), cli.Count(s.Attachments, "attachment"),
		fmt.Sprintf("%d damaged", s.Corruption), fmt.Sprintf("%d repairable", s.Repairable), cli.Count(s.Notes, "note"), more))
}
