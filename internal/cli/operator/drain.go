package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/internal/cli"
)

func clusterDrainCommand(p *cli.Program) *cobra.Command {
	cfg := clusterConfig{}
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Let a node hand over its conversations",
		Long: "drain marks a node in the bucket: it owns no conversation any more and hands over what it\n" +
			"has, turns under way too, which costs them no attempt. It goes on serving HTTP requests for\n" +
			"conversations of other nodes. drain then waits until the node reports none of its own.\n\n" +
			"A node that is stopped with SIGTERM drains itself; drain is for a look before, or for a\n" +
			"node that is to be kept aside. It lasts until --undo, or until the node is started again.\n\n" +
			"NODE is a member's id or the beginning of it, its node address or its HTTP address, as\n" +
			"\"parley cluster status\" prints them.\n\n" +
			"Exit code: 0 if the node has none left, 1 anything else, 130 if it was interrupted.",
		Example: "  parley cluster drain 10.0.0.5:7946\n  parley cluster drain 01K0ABCD --wait 2m\n  parley cluster drain 01K0ABCD --undo",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] != "" {
				return nil
			}
			return errors.New("drain takes one node; \"parley cluster status\" lists them")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return cfg.drain(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	cfg.place = cli.NewPlace(p, cmd, "the bucket", false)
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print a line of JSON for each state: draining, drained, left or serving")
	cmd.Flags().BoolVar(&cfg.undo, "undo", false, "let the node own conversations again")
	cmd.Flags().DurationVar(&cfg.wait, "wait", 30*time.Second, "how long to wait until the node has handed over; 0 does not wait")
	return cmd
}

// drain sets the state of a member and waits until it is applied.
func (cfg clusterConfig) drain(ctx context.Context, name string, out io.Writer) error {
	conf, bucket, err := cfg.open(ctx)
	if err != nil {
		return err
	}
	w := newClusterWatch(bucket)
	if err := w.look(ctx); err != nil {
		return fmt.Errorf("%s: %w", conf.Bucket.Place(), err)
	}
	m, err := findMember(w.view, name)
	if err != nil {
		return fmt.Errorf("%s: %w", conf.Bucket.Place(), err)
	}
	if err := mayDrain(w.view, m, cfg.undo); err != nil {
		return err
	}
	if _, err := actors.SetDraining(ctx, bucket, m.ID, !cfg.undo); err != nil {
		return fmt.Errorf("%s: %w", conf.Bucket.Place(), err)
	}
	shown := fmt.Sprintf("member %s at %s", m.ID, m.Node)
	say := drainPrinter{out, cfg.json, m.ID, m.Node}
	if cfg.undo {
		return say.print("serving", 0, "%s owns conversations again\n", shown)
	}
	if err := say.print(stateDraining, m.Active, "%s is draining\n", shown); err != nil || cfg.wait <= 0 {
		return err
	}
	return w.drained(ctx, m.ID, shown, cfg.wait, say)
}

// drainPrinter prints the progress of a drain as text or JSON.
type drainPrinter struct {
	out          io.Writer
	json         bool
	member, node string
}

// print prints the state of the member and its conversations in memory.
func (p drainPrinter) print(state string, active int64, format string, args ...any) error {
	if !p.json {
		_, err := fmt.Fprintf(p.out, format, args...)
		return err
	}
	return json.NewEncoder(p.out).Encode(struct {
		Member string `json:"member"`
		Node   string `json:"node"`
		State  string `json:"state"`
		Active int64  `json:"active"`
	}{p.member, p.node, state, active})
}

// mayDrain rejects a change that would leave conversations without an owner.
func mayDrain(v *actors.ClusterView, m actors.ClusterMember, undo bool) error {
	if undo {
		return nil
	}
	if m.Node == "" {
		return fmt.Errorf("member %s at %s serves the bucket alone: nobody can take its conversations; just stop it", m.ID, dash(m.Address))
	}
	for _, other := range v.Members {
		if other.ID != m.ID && !other.Draining && other.Weight > 0 {
			return nil
		}
	}
	return fmt.Errorf("member %s is the only one that conversations can go to: start another node first, or just stop this one", m.ID)
}

// drained waits until a member reports that it has no conversation in memory.
func (w *clusterWatch) drained(ctx context.Context, id, shown string, wait time.Duration, say drainPrinter) error {
	left, end := int64(-1), time.Now().Add(wait)
	before := w.counts[id]
	for looks := 1; ; looks++ {
		if err := w.look(ctx); ctx.Err() != nil {
			return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("%s goes on draining; \"parley cluster drain --undo %s\" takes it back", shown, id)}
		} else if err != nil {
			return err
		}
		m, ok := w.member(id)
		// The first changed heartbeat may have been sent before.
		fresh := w.counts[id]-before >= 2
		switch {
		case !ok:
			return say.print("left", 0, "%s has left\n", shown)
		case !m.Draining:
			return fmt.Errorf("%s drains no more: somebody has taken it back", shown)
		case fresh && m.Active == 0:
			return say.print("drained", 0, "%s has no conversation left\n", shown)
		case fresh && m.Active != left:
			left = m.Active
			if err := say.print(stateDraining, left, "%d conversations left\n", left); err != nil {
				return err
			}
		}
		switch {
		case time.Now().Before(end), looks < 2: // a fresh heartbeat needs two reads
		case !fresh:
			return fmt.Errorf("%s shows no heartbeat after %v: if it has died, the others take its conversations over without a drain; \"parley cluster status\" tells", shown, wait)
		default:
			return fmt.Errorf("%s has %d conversations left after %v, and goes on draining: wait longer with --wait, or take it back with --undo", shown, m.Active, wait)
		}
		// The next read reports an end during the pause.
		_ = pause(ctx, watchPause)
	}
}
