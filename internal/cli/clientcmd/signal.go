package clientcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/converse"
)

type signalConfig struct {
	key   string
	login converse.AccessFlags
}

func signalCommand() *cobra.Command {
	cfg := signalConfig{}
	cmd := &cobra.Command{
		Use:   "signal <conversation URL> <name> <value>",
		Short: "Send a signal to a waiting tool of a conversation",
		Long: "signal resolves the wait of a tool with this name. The value is JSON, or text if the tool waits\n" +
			"for text. The first signal that fits resolves the wait; a signal that arrives before the wait is\n" +
			"kept.\n\n" +
			"Exit code: 0 accepted or kept, 1 any other error.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 3 {
				return nil
			}
			return errors.New("signal takes a conversation URL, a name and a value: parley signal http://127.0.0.1:5173" + cli.MountPath + `/hello approval '{"ok":true}'`)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return signal(cmd.Context(), cfg, args[0], args[1], args[2], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&cfg.key, "key", "", "idempotency key (default: a new one); a signal with the same key is admitted once")
	cfg.login.Add(cmd)
	return cmd
}

func signal(ctx context.Context, cfg signalConfig, rawURL, name, value string, out, errOut io.Writer) error {
	at, err := converse.ParseURL(rawURL)
	if err != nil {
		return err
	}
	m, err := client.SignalFor(name, value)
	if err != nil {
		return err
	}
	if m.Key = cfg.key; m.Key == "" {
		m.Key = cli.NewKey()
	}
	access, err := cfg.login.Access()
	if err != nil {
		return err
	}
	if _, _, err = converse.Post(ctx, &converse.Notices{At: at, ErrOut: errOut}, access, m); err != nil {
		return converse.Unsure(ctx, "signal", "signal", m.Key, err)
	}
	_, err = fmt.Fprintln(out, "signalled")
	return err
}
