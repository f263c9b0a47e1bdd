package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
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
			return abort(cmd.Context(), tokenEnv, args[0], cmd.OutOrStdout())
		},
	}
	tokenFlag(cmd, &tokenEnv)
	return cmd
}

// abort asks once: asking again after a lost answer could end a message that was
// sent in between.
func abort(ctx context.Context, tokenEnv, rawURL string, out io.Writer) error {
	at, err := conversationURL(rawURL)
	if err != nil {
		return err
	}
	c, err := newClient(tokenEnv)
	if err != nil {
		return err
	}
	// The id stays escaped as it was written.
	at.RawPath = at.EscapedPath() + "/abort"
	at.Path += "/abort"
	ctx, cancel := context.WithTimeoutCause(ctx, quietAfter, errQuiet)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return err
	}
	resp, err := c.do(req)
	if err != nil {
		return fmt.Errorf("abort: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("abort: %w", failed(resp))
	}
	var answer struct{ Aborted bool }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("abort: decode answer: %w", err)
	}
	said := "nothing to abort"
	if answer.Aborted {
		said = "aborting"
	}
	_, err = fmt.Fprintln(out, said)
	return err
}
