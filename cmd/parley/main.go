// Command parley runs durable agent conversations and talks to them.
//
// It names the vendors: it wires the embedded bucket, the providers, the runtime and
// HTTP. See "parley help".
package main

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

func main() {
	threads.Spread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// exitError ends the process with a code; the text, if any, is for the user.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// rootCommand is the program with all its commands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Durable AI-agent conversations",
		Long: "parley runs AI-agent conversations whose every word is durable: an accepted message\n" +
			"reaches exactly one outcome, whatever dies in between.\n\n" +
			"Start with \"parley dev\".",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(devCommand(), serveCommand(), runCommand(), sendCommand(), tailCommand(), abortCommand(),
		statsCommand(), traceCommand(), eventsCommand(), modelsCommand(),
		clusterCommand(), bucketCommand(), logCommand(), versionCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	return root
}

// run is the whole program apart from the process: it returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	out, errOut = newTerminal(out), newTerminal(errOut)
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := 1
	var exit *exitError
	if errors.As(err, &exit) {
		if code = exit.code; exit.err == nil {
			return code
		}
	}
	fmt.Fprintf(errOut, "parley: %v\n", err)
	return code
}
