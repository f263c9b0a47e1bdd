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

// logConfig holds the flags of the subcommands of "parley log".
type logConfig struct {
	program         *cli.Program
	place           *cli.Place
	agent, id, conv string // the conversation by its address or its key; all empty for every one
	from, to        int64
	json, write     bool
	truncateLog     bool // --truncate
}

func logCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read, check and repair the logs of a bucket",
	}
	cmd.AddCommand(logDumpCommand(p), logVerifyCommand(p), logRepairCommand(p), logQuarantineCommand(p))
	return cmd
}

// bucketFlags adds the flags that name a bucket and a conversation in it.
func (cfg *logConfig) bucketFlags(cmd *cobra.Command) {
	cfg.place = cli.NewPlace(cfg.program, cmd, "the bucket", true)
	cmd.Flags().StringVar(&cfg.agent, "agent", "", "with --id: only this conversation of this agent")
	cmd.Flags().StringVar(&cfg.id, "id", "", "with --agent: only the conversation with this id")
	cmd.Flags().StringVar(&cfg.conv, "conversation", "", "only the conversation with this key, the 32 digits in object keys")
	cmd.MarkFlagsRequiredTogether("agent", "id")
	cmd.MarkFlagsMutuallyExclusive("agent", "conversation")
	cli.RenamedFlag(cmd, "conv", "conversation")
}

func logDumpCommand(p *cli.Program) *cobra.Command {
	cfg := &logConfig{program: p}
	cmd := &cobra.Command{
		Use:   "dump [object key]",
		Short: "Print an object, or the log of a conversation",
		Long: "dump prints one object of the bucket as lines of JSON: first a line with its type, then its\n" +
			"content, with records as they are stored. For an attachment it prints size and digest.\n\n" +
			"With --agent and --id, or --conversation, it prints the log of that conversation instead, from\n" +
			"all objects that hold its batches: for each a line about the batch, then its records.\n\n" +
			"If an object or a log is corrupt, it prints the readable parts before and after the corruption\n" +
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
		Short: "Check the stored data",
		Long: "verify reads all objects in the bucket, or those of one conversation. It checks that every batch\n" +
			"has its hash and follows the previous one, and that segments, checkpoints, pages and attachments\n" +
			"match their names. It reports missing and unused objects:\n\n" +
			"  damage      data is lost, or will be; the finding names it and its location\n" +
			"  repairable  no data is lost, and \"parley log repair\" fixes it\n" +
			"  note        for information; leftovers, which only use space, are counted in one line\n\n" +
			"Nothing is changed. It may run next to servers: objects that change during the check are read\n" +
			"again. A server keeps merged segments for its readers for some minutes, and then deletes\n" +
			"these leftovers itself.\n\n" +
			"Exit code: 0 only notes, 1 something repairable, 2 damage, 3 the check could not complete, 75 a\n" +
			"server uses the folder and has no socket to read it.",
		Example: "  parley log verify\n  parley log verify --config /etc/parley.yaml --json\n  parley log verify --agent assistant --id hello",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cfg.verify(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print findings as lines of JSON, followed by the counts")
	return cmd
}

func logRepairCommand(p *cli.Program) *cobra.Command {
	cfg := &logConfig{program: p}
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Repair damage that can be repaired without data loss",
		Long: "repair checks like verify and prints the planned changes; with --write it makes them. It fixes\n\n" +
			"  a lost head           rewritten\n" +
			"  a lost checkpoint     rebuilt from the log\n" +
			"  a leftover            a claim, checkpoint or page without a reference, or a segment whose\n" +
			"                        batches other segments hold: deleted\n" +
			"  an unreadable batch   that a segment holds: deleted, or rewritten\n\n" +
			"and nothing else. A conversation with any other damage is not changed. If the named conversation\n" +
			"was quarantined and has no damage left, it is released.\n\n" +
			"With --truncate, and one conversation, it truncates an unreadable log before its first corrupt or\n" +
			"missing batch. It prints the loss: batches, and their admissions and settlements as far as they\n" +
			"are readable. The truncated part is kept in the folder\n" +
			"truncated/ of the conversation. Submissions whose settlement is lost are processed again. If you\n" +
			"have a copy, restore the objects from it instead.\n\n" +
			"With --write no server may use the bucket. A folder is locked by its server. At an endpoint\n" +
			"repair refuses to run if it sees a heartbeat, but a hanging server has none: stop all of them.\n" +
			"Without --write it may run next to servers.\n\n" +
			"Exit code: 0 nothing is left to do, 1 --write would fix something, 2 damage is left, 3 it did not\n" +
			"complete, 75 a server uses the bucket.",
		Example: "  parley log repair\n  parley log repair --write\n  parley log repair --config parley.yaml --agent assistant --id hello --write\n" +
			"  parley log repair --agent assistant --id hello --truncate",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.truncateLog {
				return cfg.truncate(cmd.Context(), cmd.OutOrStdout())
			}
			return cfg.repair(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.write, "write", false, "make the changes")
	cmd.Flags().BoolVar(&cfg.truncateLog, "truncate", false, "truncate the log of one conversation before its first corrupt batch; the listed data is lost")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print findings as lines of JSON, followed by the counts")
	return cmd
}

// key returns the key of the conversation that the flags select, "" for all conversations.
func (cfg *logConfig) key() (conversation.Key, error) {
	switch {
	case cfg.conv != "":
		if storage.CheckConv(conversation.Key(cfg.conv)) != nil {
			return "", cli.Usage(fmt.Errorf("--conversation %q is not the key of a conversation, which has 32 hexadecimal digits; write one, or use --agent and --id", cfg.conv))
		}
		return conversation.Key(cfg.conv), nil
	case cfg.agent != "":
		return conversation.Address{Agent: cfg.agent, ID: cfg.id}.Key(), nil
	}
	return "", nil
}

// checking opens the bucket for a check, for writing if --write is set, and calls use. If the bucket
// cannot be opened, the error has the exit code [cli.ExitUnknown], because the other codes are results
// of the check.
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

// with opens the bucket, calls use and closes it. Without write, it changes no byte of a data folder.
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

// explain adds a remedy to an error of a check, if one is known.
func (cfg *logConfig) explain(at config.Bucket, err error) error {
	var e *storage.Error
	switch {
	case errors.Is(err, inspect.ErrNoConversation):
		desc := "conversation " + cfg.conv
		if cfg.conv == "" {
			desc = fmt.Sprintf("conversation %q of agent %q", cfg.id, cfg.agent)
		}
		return fmt.Errorf("%s has no %s; ids and agents are those in URLs and files", at.Place(), desc)
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
			p.offerTruncation(conv)
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
		p.sum("repair", at, sum, repairs(sum, cfg.write))
		switch {
		case p.err != nil:
			return &cli.ExitError{Code: cli.ExitUnknown, Err: fmt.Errorf("print findings: %w", p.err)}
		case sum.Corruption > 0:
			p.offerTruncation(conv)
			return &cli.ExitError{Code: exitCorruption}
		case sum.Planned > 0:
			return &cli.ExitError{Code: exitRepairable}
		case !cfg.write || conv == "":
			return nil
		}
		outcome := releaseRepaired
		if sum.Repairable == 0 {
			outcome = stillQuarantined
		}
		if err := outcome(ctx, b, conv, p); err != nil {
			return &cli.ExitError{Code: cli.ExitUnknown, Err: cfg.explain(at, err)}
		}
		return nil
	})
}

// offerTruncation prints the remedies for corruption that repair cannot fix: a copy, or --truncate.
func (p *findingPrinter) offerTruncation(conv conversation.Key) {
	if p.json {
		return
	}
	which := "--conversation <key>"
	if conv != "" {
		which = "--conversation " + string(conv)
	}
	p.write(fmt.Sprintf("restore the corrupt objects from a copy; without one, parley log repair --truncate %s prints the loss of truncating the log before them\n", which))
}

// repairs returns the part of the summary that counts the applied or planned repairs.
func repairs(s inspect.Summary, write bool) string {
	switch {
	case write:
		return fmt.Sprintf(", %d repaired", s.Repaired)
	case s.Planned > 0:
		return fmt.Sprintf(", %d to be repaired with --write", s.Planned)
	}
	return ", nothing to repair"
}

// findingPrinter prints findings and the summary as text, or as lines of JSON.
type findingPrinter struct {
	out       io.Writer
	json      bool
	leftovers map[inspect.Kind]int64 // number of leftovers by kind, printed in one line each in the text form
	err       error                  // first error of a write to out
}

func (p *findingPrinter) write(s string) {
	if _, err := io.WriteString(p.out, s); p.err == nil {
		p.err = err
	}
}

// print prints a finding. v is its JSON form, o and steps are the outcome and the steps of a repair,
// empty for a check.
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
		s.WriteString("  refused: a conversation with damage is not changed\n")
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

// printLeftovers prints one line with the number of leftovers of each kind.
func (p *findingPrinter) printLeftovers() {
	for _, kind := range slices.Sorted(maps.Keys(p.leftovers)) {
		p.write(fmt.Sprintf("note %s: %s\n  they only use space; parley log repair --write deletes them\n", kind, cli.Count(p.leftovers[kind], "leftover")))
	}
}

// sum prints the summary: the checked objects and the findings by severity. more is appended to the
// text form.
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
