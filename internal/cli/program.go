// Package cli is the program without its commands: start, exit, and helpers that the command packages
// share.
//
// The commands are in four packages by audience: server (init, dev, serve, run, chat), clientcmd
// (send, signal, tail, abort, runs), analyst (stats, trace, events, models) and operator (log, outbox,
// bucket, cluster). Each exports a [CommandSet], and none imports another. All of them get the
// [Program], which holds the agents and extensions that an author compiled in.
//
// This package holds the code that more than one of them needs. That is exit codes, the registry of
// models, redaction of logs, printing of chunks and metrics, and opening of buckets and databases.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/threads"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
)

// Program holds the parts of a program that its author adds. The zero value is Parley itself. It must
// not change while commands run. The fields match those of package parley at the root.
type Program struct {
	Agents     []*agent.Agent
	Workflows  []agent.AnyWorkflow
	Providers  map[string]providers.Registration
	Protocols  map[string]providers.Protocol
	Middleware []func(http.Handler) http.Handler
	Mounts     map[string]http.Handler
	Channels   func(conversation.Dispatcher) (map[string]channels.Channel, error)
	Observers  []observability.Sink
	Targets    map[string]outbox.Target
}

// CommandSet makes the commands of one package.
type CommandSet func(*Program) []*cobra.Command

// Main runs the program with the arguments of the process and exits. The first signal asks it to shut
// down; a second one ends it at once.
func (p *Program) Main(sets ...CommandSet) {
	threads.Spread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, sets...)
	stop()
	os.Exit(code)
}

// Root returns the root command with the commands of the sets and the built-in ones.
func (p *Program) Root(sets ...CommandSet) *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Durable AI-agent conversations",
		Long: "parley runs durable AI-agent conversations: every accepted message\n" +
			"reaches exactly one outcome, regardless of crashes.\n\n" +
			"Start with \"parley dev\"." + p.compiledIn() + "\n\n" + exitCodesHelp(),
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := flagGroups(cmd); err != nil {
				return Usage(errors.Join(p.check(), err))
			}
			return errors.Join(p.check(), fromVariables(cmd, os.LookupEnv))
		},
	}
	for _, set := range sets {
		root.AddCommand(set(p)...)
	}
	root.AddCommand(versionCommand(), completionCommand())
	worded(root)
	p.completing(root)
	return root
}

// OwnAgents returns the names of the agents of the program, in order.
func (p *Program) OwnAgents() (names []string) {
	for _, a := range p.Agents {
		if a != nil {
			names = append(names, a.Name)
		}
	}
	return names
}

// OwnWorkflows returns the names of the workflows of the program, in order.
func (p *Program) OwnWorkflows() (names []string) {
	for _, w := range p.Workflows {
		if given(w) {
			names = append(names, w.Name())
		}
	}
	return names
}

// HasOwn reports whether the program can serve without a configuration file.
func (p *Program) HasOwn() bool { return len(p.Agents)+len(p.Workflows) > 0 }

// compiledIn lists the agents of the program for its help.
func (p *Program) compiledIn() string {
	names := p.OwnAgents()
	if len(names) == 0 {
		return ""
	}
	return "\n\nThis program includes the agents: " + strings.Join(names, ", ") + "."
}

// Run runs the program without exiting the process and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string, out, errOut io.Writer, sets ...CommandSet) int {
	stdout := newTerminal(out)
	errOut = newTerminal(errOut)
	root := p.Root(sets...)
	root.SetArgs(args)
	root.SetIn(&input{ctx.Done(), os.Stdin})
	root.SetOut(stdout)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = stdout.failed()
	}
	if err == nil {
		return 0
	}
	code := ExitFailure
	var exit *ExitError
	if errors.As(err, &exit) {
		if code = exit.Code; exit.Err == nil {
			return code
		}
	}
	fmt.Fprintf(errOut, "parley: %v\n", err)
	return code
}
