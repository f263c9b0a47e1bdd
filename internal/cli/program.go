// Package cli is the program without its commands: how it is run and how it ends, and what
// the rooms of its commands share.
//
// The commands are in rooms by who reads what they print: node (dev, serve, run), talk
// (send, tail, abort), look (stats, trace, events, models) and keep (log, bucket, cluster).
// A room gives its commands to [Root], and no room imports another. Here is what more than
// one of them needs: exit codes, the registry of models, what the log must hide, how chunks
// and figures are printed, and which buckets and databases a configuration names.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/threads"
)

// Main runs the program as the process: with its arguments, until a signal asks it to end,
// and ends the process. A second signal ends it at once.
func Main(root *cobra.Command) {
	threads.Spread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := Run(ctx, root, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Root is the program with these commands and its own.
func Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Durable AI-agent conversations",
		Long: "parley runs AI-agent conversations whose every word is durable: an accepted message\n" +
			"reaches exactly one outcome, whatever dies in between.\n\n" +
			"Start with \"parley dev\".",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(commands...)
	root.AddCommand(versionCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	return root
}

// Run is the whole program apart from the process: it returns the exit code. A root runs
// once.
func Run(ctx context.Context, root *cobra.Command, args []string, out, errOut io.Writer) int {
	out, errOut = newTerminal(out), newTerminal(errOut)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := 1
	var exit *ExitError
	if errors.As(err, &exit) {
		if code = exit.Code; exit.Err == nil {
			return code
		}
	}
	fmt.Fprintf(errOut, "parley: %v\n", err)
	return code
}
