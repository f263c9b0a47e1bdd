package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/converse"
)

type tailConfig struct {
	offset string
	login  converse.AccessFlags
	json   bool
}

func tailCommand() *cobra.Command {
	cfg := tailConfig{}
	cmd := &cobra.Command{
		Use:   "tail <conversation URL>",
		Short: "Print a conversation and follow it until interrupted",
		Args:  oneURL("tail"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tail(cmd.Context(), cfg, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.offset, "offset", "-1", "print the records after this offset; -1 is the beginning")
	cmd.Flags().BoolVar(&cfg.json, "json", false, "print chunks as JSON lines")
	cfg.login.Add(cmd)
	return cmd
}

// oneURL requires a conversation URL as the only argument.
func oneURL(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return fmt.Errorf("%s takes one conversation URL, such as http://127.0.0.1:5173%s/hello", command, cli.MountPath)
	}
}

func tail(ctx context.Context, cfg tailConfig, rawURL string, out, errOut io.Writer) error {
	at, err := converse.ParseURL(rawURL)
	if err != nil {
		return err
	}
	notes := &converse.Notices{At: at, ErrOut: errOut}
	access, err := cfg.login.Access()
	if err != nil {
		return err
	}
	c, err := converse.NewClient(at, access, notes.Retrying)
	if err != nil {
		return err
	}
	after, err := conversation.ParseOffset(cfg.offset)
	if err != nil {
		return fmt.Errorf("--offset: %w; omit it to begin with the first message", err)
	}
	p := cli.NewPrinter(out, &cli.PrintOptions{JSON: cfg.json})
	defer p.End()
	notes.Notice = p.Notice
	for update, err := range c.Observe(ctx, after, nil) {
		var refused *client.Error
		switch {
		case errors.Is(err, context.Canceled):
			return nil // an interrupt is the normal end of a tail
		case errors.As(err, &refused) && refused.Type == conversation.CodeStreamNotFound:
			return fmt.Errorf("conversation %s has no messages yet: %w", at.Redacted(), converse.Readable(err))
		case err != nil:
			return converse.Readable(err)
		}
		for _, chunk := range update.Chunks {
			p.Chunk(chunk)
		}
	}
	return nil // unreachable: the stream ends with an error
}
