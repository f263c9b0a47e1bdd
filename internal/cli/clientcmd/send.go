package clientcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/converse"
)

type sendConfig struct {
	key     string
	login   converse.AccessFlags
	attach  []string
	noWait  bool
	json    bool
	initial cli.InitialData
}

func sendCommand() *cobra.Command {
	cfg := sendConfig{}
	cmd := &cobra.Command{
		Use:   "send <conversation URL> <message>",
		Short: "Send a message to a conversation and print the streamed reply",
		Long: "send posts a message and follows the conversation until the message is settled. It prints only\n" +
			"the answer to this message. It continues across restarts of the server.\n\n" +
			"Exit code: 0 completed, 2 failed, 3 aborted, 130 interrupted, 1 any other error.",
		Example: "  parley send http://127.0.0.1:5173" + cli.MountPath + "/hello 'long 100'\n" +
			"  git diff | parley send http://127.0.0.1:5173" + cli.MountPath + "/review -\n" +
			"  parley send --attach photo.png http://127.0.0.1:5173" + cli.MountPath + "/hello 'What is this?'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return errors.New("send takes a conversation URL and one message; put the message in quotes: parley send http://127.0.0.1:5173" + cli.MountPath + "/hello 'long 100'")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cli.ReadMessage(args[1], cmd.InOrStdin(), "write it after the URL, or pipe it to -")
			if err != nil {
				return err
			}
			return send(cmd.Context(), cfg, args[0], text, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.key, "key", "", "idempotency key (default: a new one); a message with the same key is admitted once")
	cmd.Flags().StringArrayVar(&cfg.attach, "attach", nil, "send this image with the message; may be repeated")
	cmd.Flags().BoolVar(&cfg.noWait, "no-wait", false, "print the receipt as JSON and do not wait for the reply")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print chunks as JSON lines")
	cfg.initial.Flag(cmd)
	cmd.Flags().Var(&cfg.initial, "data", "the same as --initial-data")
	cfg.login.Add(cmd)
	return cmd
}

func send(ctx context.Context, cfg sendConfig, rawURL, text string, out, errOut io.Writer) error {
	at, err := converse.ParseURL(rawURL)
	if err != nil {
		return err
	}
	if cfg.key == "" {
		cfg.key = cli.NewKey()
	}
	m := client.Message{Body: text, Key: cfg.key}
	if m.Attachments, err = attachments(cfg.attach); err != nil {
		return err
	}
	if initial := cfg.initial.JSON(); initial != nil {
		m.InitialData = initial
	}
	notes := &converse.Notices{At: at, ErrOut: errOut}
	access, err := cfg.login.Access()
	if err != nil {
		return err
	}
	c, receipt, err := converse.Post(ctx, notes, access, m)
	if err != nil {
		return converse.Unsure(ctx, "send", "message", m.Key, err)
	}
	if cfg.noWait {
		return json.NewEncoder(out).Encode(receipt)
	}
	before := ""
	if receipt.Deduplicated {
		before = ", before"
	}
	notes.Line("accepted%s as %s", before, receipt.SubmissionID)
	reply := converse.NewReply(c, receipt, cli.NewPrinter(out, &cli.PrintOptions{Only: receipt.SubmissionID, JSON: cfg.json}), notes, access)
	outcome, err := reply.Follow(ctx)
	reply.End()
	if err != nil && ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; the message continues at the server, parley tail %s shows it", at.Redacted())}
	}
	if err != nil {
		return fmt.Errorf("follow the reply: %w", converse.Readable(err))
	}
	return cli.ExitOf(outcome)
}
