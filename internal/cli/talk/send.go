package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
)

type sendConfig struct {
	key      string
	tokenEnv string
	noWait   bool
	json     bool
	initial  cli.InitialData
}

func sendCommand() *cobra.Command {
	cfg := sendConfig{}
	cmd := &cobra.Command{
		Use:   "send <conversation URL> <message>",
		Short: "Send a message to a conversation and print the reply as it comes",
		Long: "send posts a message and follows the conversation until the message is settled.\n" +
			"It survives restarts of the server.\n\n" +
			"Exit code: 0 completed, 2 failed, 3 aborted, 130 interrupted, 1 anything else.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return errors.New("send takes a conversation URL and one message; put the message in quotes: parley send http://127.0.0.1:5173" + cli.MountPath + "/hello 'long 100'")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return send(cmd.Context(), cfg, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.key, "key", "", "idempotency key, by default a fresh one; a message sent again under its key is not repeated")
	cmd.Flags().BoolVar(&cfg.noWait, "no-wait", false, "print the receipt as JSON and do not wait for the reply")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print chunks as JSON lines")
	cfg.initial.Flag(cmd)
	tokenFlag(cmd, &cfg.tokenEnv)
	return cmd
}

func send(ctx context.Context, cfg sendConfig, rawURL, text string, out, errOut io.Writer) error {
	at, err := conversationURL(rawURL)
	if err != nil {
		return err
	}
	c, err := newClient(at, cfg.tokenEnv, warner(errOut, at))
	if err != nil {
		return err
	}
	if cfg.key == "" {
		cfg.key = cli.NewKey()
	}
	m := client.Message{Body: text, Key: cfg.key}
	if initial := cfg.initial.JSON(); initial != nil {
		m.InitialData = initial
	}
	receipt, err := c.Send(ctx, m)
	if err != nil && ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; the message may be accepted or not: send it again with --key %s and it is not repeated", cfg.key)}
	}
	var uncertain *client.UncertainError
	if errors.As(err, &uncertain) {
		return fmt.Errorf("send: %w; send it again with --key %s and it is not repeated", readable(err), uncertain.Key)
	}
	if err != nil {
		return fmt.Errorf("send: %w", readable(err))
	}
	if cfg.noWait {
		return json.NewEncoder(out).Encode(receipt)
	}
	show, end := cli.ShowChunks(out, cfg.json)
	defer end()
	outcome, err := followReply(ctx, c, receipt, show)
	if err != nil && ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: fmt.Errorf("interrupted; the server goes on with the message, and parley tail %s shows it", at.Redacted())}
	}
	if err != nil {
		return fmt.Errorf("follow the reply: %w", readable(err))
	}
	return cli.ExitOf(outcome)
}

// followReply shows what is recorded after a message until its settlement.
func followReply(ctx context.Context, c *client.Conversation, receipt client.Receipt, show func(conversation.Chunk)) (conversation.Outcome, error) {
	for update, err := range c.Observe(ctx, receipt.Offset, nil) {
		if err != nil {
			return "", err
		}
		for _, chunk := range update.Chunks {
			show(chunk)
			if outcome, ok := cli.SettlementOf(chunk, receipt.SubmissionID); ok {
				return outcome, nil
			}
		}
	}
	return "", ctx.Err() // not reached: it ends with an error
}
