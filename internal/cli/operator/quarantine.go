package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

// byHand is the reason for a conversation that an operator has quarantined.
const byHand = "quarantined by an operator"

// quarantineConfig holds the flags of "parley log quarantine".
type quarantineConfig struct {
	logConfig
	set, release bool
}

func logQuarantineCommand(p *cli.Program) *cobra.Command {
	cfg := &quarantineConfig{logConfig: logConfig{program: p}}
	cmd := &cobra.Command{
		Use:   "quarantine",
		Short: "List and release quarantined conversations",
		Long: "quarantine lists the quarantined conversations, whose opening failed repeatedly or crashed the\n" +
			"process: the time, the number of failures, and the reason. Their reads and messages get the error\n" +
			"conversation_quarantined. No data is lost. Nodes retry them automatically, after 10 minutes and\n" +
			"then less and less often, and release those that open.\n\n" +
			"With --release, and one conversation, nodes open it again at their next sweep and continue its\n" +
			"pending work. Repair the cause first, such as a corrupt log, a bug, or too little memory:\n" +
			"otherwise it is quarantined again. With --set, one is quarantined manually until it is released;\n" +
			"a node that has it in memory continues it.\n\n" +
			"It may run next to servers. With --release or --set, a folder is locked by its server: stop it first.",
		Example: "  parley log quarantine --config parley.yaml\n  parley log quarantine --config parley.yaml --release --agent assistant --id hello\n" +
			"  parley log quarantine --release --conversation 0123456789abcdef0123456789abcdef",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cfg.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.release, "release", false, "release one conversation")
	cmd.Flags().BoolVar(&cfg.set, "set", false, "quarantine one conversation")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print lines of JSON")
	cmd.MarkFlagsMutuallyExclusive("release", "set")
	return cmd
}

func (cfg *quarantineConfig) run(ctx context.Context, out io.Writer) error {
	conv, err := cfg.key()
	if err != nil {
		return err
	}
	if conv == "" && (cfg.set || cfg.release) {
		return cli.Usage(errors.New("--release and --set take one conversation: --agent and --id, or --conversation"))
	}
	return cfg.with(cfg.set || cfg.release, func(at config.Bucket, b storage.Bucket) error {
		p := &findingPrinter{out: out, json: cfg.json}
		if _, err := storage.CheckFormat(ctx, b); err != nil {
			return cfg.explain(at, err)
		}
		switch {
		case cfg.release:
			err = release(ctx, b, conv, p)
		case cfg.set:
			err = cfg.quarantine(ctx, b, conv, p)
		default:
			err = listQuarantine(ctx, b, conv, p)
		}
		return cfg.explain(at, errors.Join(err, p.err))
	})
}

// release releases a conversation from quarantine and prints it.
func release(ctx context.Context, b storage.Bucket, conv conversation.Key, p *findingPrinter) error {
	err := storage.PutBack(ctx, b, conv)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("conversation %s is not quarantined", conv)
	case err != nil && storage.IsCorrupt(err):
		return fmt.Errorf("%w; repair the log first: parley log repair --conversation %s", err, conv)
	case err != nil:
		return err
	case !p.json:
		p.write(fmt.Sprintf("conversation %s is released; nodes apply it at their next sweep, within 30 s\n", conv))
	}
	return nil
}

func (cfg *quarantineConfig) quarantine(ctx context.Context, b storage.Bucket, conv conversation.Key, p *findingPrinter) error {
	did, err := storage.PutQuarantine(ctx, b, storage.Quarantine{
		Conv: conv, Agent: cfg.agent, ID: cfg.id, At: conversation.TimeOf(time.Now()), Why: byHand,
	})
	switch {
	case err != nil || p.json:
		return err
	case !did:
		p.write(fmt.Sprintf("conversation %s was already quarantined\n", conv))
	default:
		p.write(fmt.Sprintf("conversation %s is quarantined; nodes apply it at their next sweep, within 30 s\n", conv))
	}
	return nil
}

// listQuarantine prints the quarantined conversations, or whether one of them is.
func listQuarantine(ctx context.Context, b storage.Bucket, only conversation.Key, p *findingPrinter) error {
	keys, err := storage.ListQuarantine(ctx, b)
	if err != nil {
		return err
	}
	n := int64(0)
	for _, key := range keys {
		if only != "" && key != only {
			continue
		}
		a, err := storage.ReadQuarantine(ctx, b, key)
		switch {
		case errors.Is(err, storage.ErrNotFound):
			continue // It was released since the LIST.
		case storage.IsCorrupt(err):
			a = storage.Quarantine{Conv: key, Why: fmt.Sprintf("the reason is unreadable: %v", err)}
		case err != nil:
			return err
		}
		n++
		p.quarantined(a)
	}
	if !p.json {
		p.write(fmt.Sprintf("%s quarantined\n", cli.Count(n, "conversation")))
	}
	return nil
}

func (p *findingPrinter) quarantined(a storage.Quarantine) {
	if p.json {
		p.value(struct {
			Conversation conversation.Key `json:"conversation"`
			storage.Quarantine
			Conv *struct{} `json:"conv,omitempty"` // key in the bucket
		}{a.Conv, a, nil})
		return
	}
	var s strings.Builder
	fmt.Fprintf(&s, "conversation %s", a.Conv)
	if a.Agent != "" {
		fmt.Fprintf(&s, ", %q of agent %q", a.ID, a.Agent)
	}
	if a.At != 0 {
		fmt.Fprintf(&s, ", since %s", a.At)
	}
	if a.Failures > 0 {
		fmt.Fprintf(&s, ", after %s", cli.Count(int64(a.Failures), "failure"))
	}
	fmt.Fprintf(&s, "\n  %s\n", a.Why)
	p.write(s.String())
}

// releaseRepaired releases a conversation whose log was repaired, if it is quarantined.
func releaseRepaired(ctx context.Context, b storage.Bucket, conv conversation.Key, p *findingPrinter) error {
	if _, err := storage.ReadQuarantine(ctx, b, conv); errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return release(ctx, b, conv, p)
}

// stillQuarantined reports that a conversation without anything to repair is quarantined. The reason
// is another one, or it was repaired before.
func stillQuarantined(ctx context.Context, b storage.Bucket, conv conversation.Key, p *findingPrinter) error {
	a, err := storage.ReadQuarantine(ctx, b, conv)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !p.json:
		p.write(fmt.Sprintf("it is still quarantined: %s\n  once the cause is repaired: parley log quarantine --release --conversation %s\n", a.Why, conv))
	}
	return nil
}
