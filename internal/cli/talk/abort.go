package talk

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli/converse"
)

func abortCommand() *cobra.Command {
	tokenEnv := ""
	cmd := &cobra.Command{
		Use:   "abort <conversation URL>",
		Short: "Abort what a conversation is doing and everything queued behind it",
		Long: "abort asks the server to end the running message of a conversation and all that wait\n" +
			"behind it. What was said so far stays; each of them settles as aborted, shortly after.",
		Args: oneURL("abort"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return abort(cmd.Context(), tokenEnv, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	converse.TokenFlag(cmd, &tokenEnv)
	return cmd
}

// abort asks once, and the client does not repeat it: that could end a message that
// was sent in between.
func abort(ctx context.Context, tokenEnv, rawURL string, out, errOut io.Writer) error {
	at, err := converse.ParseURL(rawURL)
	if err != nil {
		return err
	}
	token, err := converse.TokenOf(tokenEnv)
	if err != nil {
		return err
	}
	aborted := false
	notes := &converse.Notices{At: at, ErrOut: errOut}
	if err := notes.Reach(ctx, func(ctx context.Context, retrying func(error)) error {
		c, err := converse.NewClient(at, token, retrying)
		if err == nil {
			aborted, err = c.Abort(ctx)
		}
		return err
	}); err != nil {
		return fmt.Errorf("abort: %w", converse.Readable(err))
	}
	said := "nothing to abort"
	if aborted {
		said = "aborting"
	}
	_, err = fmt.Fprintln(out, said)
	return err
}
