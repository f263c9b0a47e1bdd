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
		Short: "Make a node hand over its conversations",
		Long: "drain marks a node in the bucket: it no longer owns conversations and hands over those it has,\n" +
			"including running turns, without counting an attempt. It continues to forward HTTP requests for\n" +
			"conversations of other nodes. drain then waits until the node has no conversation in memory.\n\n" +
			"A node that gets SIGTERM drains itself. Use drain to watch it first, or to keep a node running\n" +
			"without conversations. It lasts until --undo, or until the node is restarted.\n\n" +
			"NODE is a member's id or a prefix of it, its node address or its HTTP address, as\n" +
			"\"parley cluster status\" prints them.\n\n" +
			"Exit code: 0 if the node has no conversation left, 1 any other error, 130 interrupted.",
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
	cmd.Flags().DurationVar(&cfg.wait, "wait", 30*time.Second, "maximum wait for the hand-over; 0 does not wait")
	return cmd
}

// drain sets the state of a member and waits until it is applied.
func (cfg clusterConfig) drain(ctx context.Context, name string, out io.Writer) error {
	conf, bucket, err := cfg.open(ctx)
	if err != nil {
		return err
	}
	w := newClusterWatch(bucket)
	if err := w.poll(ctx); err != nil {
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
	progress := drainPrinter{out, cfg.json, m.ID, m.Node}
	if cfg.undo {
		return progress.print("serving", 0, "%s owns conversations again\n", shown)
	}
	if err := progress.print(stateDraining, m.Active, "%s is draining\n", shown); err != nil || cfg.wait <= 0 {
		return err
	}
	return w.drained(ctx, m.ID, shown, cfg.wait, progress)
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
		return fmt.Errorf("member %s at %s serves the bucket alone: no other node can take its conversations; stop it instead", m.ID, dash(m.Address))
	}
	for _, other := range v.Members {
		if other.ID != m.ID && !other.Draining && other.Weight > 0 {
			return nil
		}
	}
	return fmt.Errorf("member %s is the only one that takes conversations: start another node first, or stop this one instead", m.ID)
}

// drained waits until a member reports that it has no conversation in memory.
func (w *clusterWatch) drained(ctx context.Context, id, shown string, wait time.Duration, progress drainPrinter) error {
	left, end := int64(-1), time.Now().Add(wait)
	before := w.counts[id]
	for polls := 1; ; polls++ {
		if err := w.poll(ctx); ctx.Err() != nil {
			return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("%s continues draining; \"parley cluster drain --undo %s\" cancels it", shown, id)}
		} else if err != nil {
			return err
		}
		m, ok := w.member(id)
		// The first changed heartbeat may have been sent before.
		fresh := w.counts[id]-before >= 2
		switch {
		case !ok:
			return progress.print("left", 0, "%s has left\n", shown)
		case !m.Draining:
			return fmt.Errorf("%s is no longer draining: the drain was cancelled", shown)
		case fresh && m.Active == 0:
			return progress.print("drained", 0, "%s has no conversation left\n", shown)
		case fresh && m.Active != left:
			left = m.Active
			if err := progress.print(stateDraining, left, "%d conversations left\n", left); err != nil {
				return err
			}
		}
		switch {
		case time.Now().Before(end), polls < 2: // a fresh heartbeat needs two reads
		case !fresh:
			return fmt.Errorf("%s has no heartbeat after %v: if it has crashed, the others take over its conversations without a drain; see \"parley cluster status\"", shown, wait)
		default:
			return fmt.Errorf("%s has %d conversations left after %v and continues draining: wait longer with --wait, or cancel with --undo", shown, m.Active, wait)
		}
		// The next read reports an end during the pause.
		_ = pause(ctx, watchPause)
	}
}
