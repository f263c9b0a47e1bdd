package clientcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/converse"
)

// treeFlag is the help of the flag that extends an abort to dispatched work.
const treeFlag = "also abort its dispatched messages and runs, and recursively theirs"

func abortCommand() *cobra.Command {
	login, tree := converse.AccessFlags{}, false
	cmd := &cobra.Command{
		Use:   "abort <conversation URL>",
		Short: "Abort the running message of a conversation and all queued ones",
		Long: "abort asks the server to abort the running message of a conversation and all queued ones. Text\n" +
			"that was already generated stays; each message settles as aborted, shortly after.\n\n" +
			"With --tree it also aborts the messages that the conversation's tools and hooks have dispatched\n" +
			"to other conversations and runs, those that these have dispatched, and so on. The trees accept no\n" +
			"further messages. Other work of the same conversations continues.",
		Args: oneURL("abort"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return abort(cmd.Context(), &login, args[0], tree, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	login.Add(cmd)
	cmd.Flags().BoolVar(&tree, "tree", false, treeFlag)
	return cmd
}

// abort sends one request without retries: a retry could abort a message that was sent in between.
func abort(ctx context.Context, login *converse.AccessFlags, rawURL string, tree bool, out, errOut io.Writer) error {
	at, err := converse.ParseURL(rawURL)
	if err != nil {
		return err
	}
	access, err := login.Access()
	if err != nil {
		return err
	}
	var done conversation.TreeAborted
	notes := &converse.Notices{At: at, ErrOut: errOut}
	if err := notes.Reach(ctx, func(ctx context.Context, retrying func(error)) error {
		c, err := converse.NewClient(at, access, retrying)
		if err == nil {
			done, err = abortOf(ctx, c, tree)
		}
		return err
	}); err != nil {
		return fmt.Errorf("abort: %w", converse.Readable(err))
	}
	return printAborted(out, done)
}

// aborter is a conversation or a run.
type aborter interface {
	Abort(context.Context) (bool, error)
	AbortTree(context.Context) (conversation.TreeAborted, error)
}

var (
	_ aborter = (*client.Conversation)(nil)
	_ aborter = (*client.Run)(nil)
)

func abortOf(ctx context.Context, c aborter, tree bool) (done conversation.TreeAborted, err error) {
	if tree {
		return c.AbortTree(ctx)
	}
	done.Aborted, err = c.Abort(ctx)
	return done, err
}

func printAborted(out io.Writer, done conversation.TreeAborted) error {
	text := "nothing to abort"
	switch n := done.Conversations; {
	case n == 1:
		text = "aborting, with 1 dispatched conversation"
	case n > 1:
		text = fmt.Sprintf("aborting, with %d dispatched conversations", n)
	case done.Aborted:
		text = "aborting"
	}
	if _, err := fmt.Fprintln(out, text); err != nil {
		return err
	}
	for _, of := range done.PartOf {
		if _, err := fmt.Fprintf(out, "part of the tree of %s in %s/%s; abort that one to end the whole tree\n", of.Submission, of.Root.Agent, of.Root.ID); err != nil {
			return err
		}
	}
	return nil
}
