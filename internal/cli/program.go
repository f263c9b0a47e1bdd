// Package cli is the program without its commands: how it is run and how it ends, and what
// the rooms of its commands share.
//
// The commands are in rooms by who reads what they print: node (init, dev, serve, run, chat), talk
// (send, signal, tail, abort, runs), look (stats, trace, events, models) and keep (log, outbox, bucket,
// cluster).
// A [Room] makes its commands, and no room imports another. All of them know the
// [Program], which is what an author has compiled in. Here is what more than
// one of them needs: exit codes, the registry of models, what the log must hide, how chunks
// and figures are printed, and which buckets and databases a configuration names.
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

// Program is what a program has beside what is ours. The zero value has nothing. It does
// not change while commands run. The fields are those of the package parley at the root.
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

// Room makes the commands of a room.
type Room func(*Program) []*cobra.Command

// Main runs the program as the process: with its arguments, until a signal asks it to end,
// and ends the process. A second signal ends it at once.
func (p *Program) Main(rooms ...Room) {
	threads.Spread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, rooms...)
	stop()
	os.Exit(code)
}

// Root is the program with the commands of these rooms and its own.
func (p *Program) Root(rooms ...Room) *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Durable AI-agent conversations",
		Long: "parley runs AI-agent conversations whose every word is durable: an accepted message\n" +
			"reaches exactly one outcome, whatever dies in between.\n\n" +
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
	for _, room := range rooms {
		root.AddCommand(room(p)...)
	}
	root.AddCommand(versionCommand(), completionCommand())
	worded(root)
	p.completing(root)
	return root
}

// OwnAgents names the agents that the program brings along, in its order.
func (p *Program) OwnAgents() (names []string) {
	for _, a := range p.Agents {
		if a != nil {
			names = append(names, a.Name)
		}
	}
	return names
}

// OwnWorkflows names the workflows that the program brings along, in its order.
func (p *Program) OwnWorkflows() (names []string) {
	for _, w := range p.Workflows {
		if given(w) {
			names = append(names, w.Name())
		}
	}
	return names
}

// Brings reports whether the program has something to serve without a file.
func (p *Program) Brings() bool { return len(p.Agents)+len(p.Workflows) > 0 }

// compiledIn names the agents of the program, for its help.
func (p *Program) compiledIn() string {
	names := p.OwnAgents()
	if len(names) == 0 {
		return ""
	}
	return "\n\nThis program brings agents along: " + strings.Join(names, ", ") + "."
}

// Run is the whole program apart from the process: it returns the exit code.
func (p *Program) Run(ctx context.Context, args []string, out, errOut io.Writer, rooms ...Room) int {
	said := newTerminal(out)
	errOut = newTerminal(errOut)
	root := p.Root(rooms...)
	root.SetArgs(args)
	root.SetIn(&input{ctx.Done(), os.Stdin})
	root.SetOut(said)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = said.failed()
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
