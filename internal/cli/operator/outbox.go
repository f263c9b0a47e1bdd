package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/converse"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/storage"
)

// outboxConfig holds the flags of "parley outbox".
type outboxConfig struct {
	logConfig
	all    bool
	server string
	login  converse.AccessFlags
	post   string // with agent, id and batch; no dead letter is read
	batch  int64
}

func outboxCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "List, resend or drop dead letters",
	}
	cmd.AddCommand(outboxListCommand(p), outboxResendCommand(p), outboxDropCommand(p))
	return cmd
}

func outboxListCommand(p *cli.Program) *cobra.Command {
	cfg := &outboxConfig{logConfig: logConfig{program: p}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters, which are undelivered posts",
		Long: "list prints the dead letters, which are posts that their target rejected permanently or did not\n" +
			"accept for a day: the target, the conversation, the time, the attempts and the reason.\n\n" +
			"It may run next to servers.",
		Example: "  parley outbox list --config parley.yaml\n  parley outbox list --agent billing --id c42 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			return cfg.deadLetters(cmd.Context(), false, func(_ context.Context, _ storage.Bucket, deadLetters []storage.DeadLetter) error {
				return cfg.list(out, deadLetters)
			})
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print lines of JSON")
	return cmd
}

func outboxResendCommand(p *cli.Program) *cobra.Command {
	cfg := &outboxConfig{logConfig: logConfig{program: p}}
	cmd := &cobra.Command{
		Use:   "resend [post...]",
		Short: "Deliver the posts of dead letters again, with their ids",
		Long: "resend asks the server to deliver the posts of dead letters again: those with the given ids, or\n" +
			"all of them with --all. It needs the same access as clients that write to the conversations, and\n" +
			"then drops the dead letters; attempts begin at once and continue for a day.\n\n" +
			"It finds the posts by their dead letters in the bucket. A folder is locked by its server: with\n" +
			"--agent, --id, --post and --batch, as printed by \"parley outbox list\" and the server's log, no\n" +
			"bucket is read, and the dead letter stays.",
		Example: "  parley outbox resend --all --server https://agents.example.com/agents --config parley.yaml\n" +
			"  parley outbox resend --server http://127.0.0.1:3000 --agent billing --id c42 --post post_01… --batch 17",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cfg.resend(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.all, "all", false, "all dead letters, or all of the conversation that --agent and --id name")
	cmd.Flags().StringVar(&cfg.server, "server", "http://127.0.0.1:3000", "URL below which agents are mounted: <server>/<agent>, or /agents/<agent> if it has no path")
	cfg.login.Add(cmd)
	cmd.Flags().StringVar(&cfg.post, "post", "", "with --agent, --id and --batch: this post, without reading a bucket")
	cmd.Flags().Int64Var(&cfg.batch, "batch", -1, "with --post: the batch of the log that has its body")
	cmd.MarkFlagsRequiredTogether("post", "batch")
	return cmd
}

func outboxDropCommand(p *cli.Program) *cobra.Command {
	cfg := &outboxConfig{logConfig: logConfig{program: p}}
	cmd := &cobra.Command{
		Use:   "drop [post...]",
		Short: "Drop dead letters",
		Long: "drop deletes dead letters: those of the posts with the given ids, or all of them with --all. The\n" +
			"posts themselves stay in the logs of their conversations.\n\n" +
			"With an endpoint it may run next to servers. A folder is locked by its server: stop it first.",
		Example: "  parley outbox drop post_01… --config parley.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			return cfg.chosen(cmd.Context(), out, args, func(ctx context.Context, b storage.Bucket, l storage.DeadLetter) error {
				if err := storage.DeleteDeadLetter(ctx, b, l); err != nil {
					return err
				}
				_, err := fmt.Fprintf(out, "dropped %s\n", l.Post)
				return err
			})
		},
	}
	cfg.bucketFlags(cmd)
	cmd.Flags().BoolVar(&cfg.all, "all", false, "all dead letters, or all of the conversation that --agent and --id name")
	return cmd
}

// deadLetters calls use with the dead letters, those of one conversation if the flags name one. The bucket
// is open for writing if write is set.
func (cfg *outboxConfig) deadLetters(ctx context.Context, write bool, use func(context.Context, storage.Bucket, []storage.DeadLetter) error) error {
	conv, err := cfg.key()
	if err != nil {
		return err
	}
	return cfg.with(write, func(at config.Bucket, b storage.Bucket) error {
		_, err := storage.CheckFormat(ctx, b)
		var found []storage.DeadLetter
		if err == nil {
			err = storage.EachDeadLetter(ctx, b, func(l storage.DeadLetter, err error) error {
				if err != nil {
					l.Reason = fmt.Sprintf("the dead letter is unreadable: %v", err)
				}
				if conv == "" || l.Conv == conv {
					found = append(found, l)
				}
				return nil
			})
		}
		if err == nil {
			err = use(ctx, b, found)
		}
		return cfg.explain(at, err)
	})
}

// chosen calls do with the dead letters of the given posts, or with all of them.
func (cfg *outboxConfig) chosen(ctx context.Context, out io.Writer, posts []string, do func(context.Context, storage.Bucket, storage.DeadLetter) error) error {
	if cfg.all == (len(posts) > 0) {
		return errors.New("name the posts that parley outbox list prints, or use --all")
	}
	return cfg.deadLetters(ctx, true, func(ctx context.Context, b storage.Bucket, deadLetters []storage.DeadLetter) error {
		for _, post := range posts {
			if !slices.ContainsFunc(deadLetters, func(l storage.DeadLetter) bool { return string(l.Post) == post }) {
				return fmt.Errorf("%.80q has no dead letter; parley outbox list prints all", post)
			}
		}
		for _, l := range deadLetters {
			if !cfg.all && !slices.Contains(posts, string(l.Post)) {
				continue
			}
			if err := do(ctx, b, l); err != nil {
				return fmt.Errorf("%s: %w", l.Post, err)
			}
		}
		if len(deadLetters) > 0 {
			return nil
		}
		_, err := fmt.Fprintln(out, cli.Count(0, "dead letter"))
		return err
	})
}

func (cfg *outboxConfig) list(out io.Writer, deadLetters []storage.DeadLetter) error {
	p := &findingPrinter{out: out, json: cfg.json}
	for _, l := range deadLetters {
		if p.json {
			p.value(struct {
				Conversation conversation.Key `json:"conversation"`
				storage.DeadLetter
				Conv *struct{} `json:"conv,omitempty"` // key in the bucket
			}{l.Conv, l, nil})
			continue
		}
		p.write(fmt.Sprintf("%s to %s, dead letter since %s after %s\n  %q of agent %q, batch %d, about %s\n  %s\n",
			l.Post, cli.OneLine(l.Target, 100), l.At, cli.Count(int64(l.Attempts), "attempt"), l.Address.ID, l.Address.Agent, l.Seq, l.Submission, cli.OneLine(l.Reason, 200)))
	}
	if !p.json {
		p.write(cli.Count(int64(len(deadLetters)), "dead letter") + "\n")
	}
	return p.err
}

// resend asks the server to deliver posts again and drops their dead letters.
func (cfg *outboxConfig) resend(ctx context.Context, posts []string, out io.Writer) error {
	if cfg.post != "" {
		if cfg.agent == "" || cfg.all || len(posts) > 0 {
			return errors.New("--post requires --agent and --id, and excludes --all and other posts")
		}
		return cfg.ask(ctx, storage.DeadLetter{Address: conversation.Address{Agent: cfg.agent, ID: cfg.id}, Post: conversation.PostID(cfg.post), Seq: cfg.batch}, out)
	}
	return cfg.chosen(ctx, out, posts, func(ctx context.Context, b storage.Bucket, l storage.DeadLetter) error {
		if err := cfg.ask(ctx, l, out); err != nil {
			return err
		}
		return storage.DeleteDeadLetter(ctx, b, l)
	})
}

// ask asks the server to deliver a post again.
func (cfg *outboxConfig) ask(ctx context.Context, l storage.DeadLetter, out io.Writer) error {
	at, err := cfg.conversation(l.Address)
	if err != nil {
		return err
	}
	access, err := cfg.login.Access()
	if err != nil {
		return err
	}
	c, err := client.New(at, access.Options())
	if err != nil {
		return err
	}
	if _, err := c.Send(ctx, client.PostAgain(l.Post, l.Seq)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "resent %s\n", l.Post)
	return err
}

// conversation returns the URL of a conversation at the server.
func (cfg *outboxConfig) conversation(at conversation.Address) (string, error) {
	u, err := url.Parse(cfg.server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("--server %.200q is not a URL; write for example http://127.0.0.1:3000/agents", cfg.server)
	}
	if strings.Trim(u.Path, "/") == "" {
		u = u.JoinPath("agents")
	}
	return u.JoinPath(at.Agent, url.PathEscape(at.ID)).String(), nil
}
