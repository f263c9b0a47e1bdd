// Package parley is the program as a library: the program "parley" with the agents of an author
// compiled in. A main function of one line is a whole program:
//
//	func main() { parley.Main(concierge) }
//
// It has every command of cmd/parley, which is the same program without agents. "go run . dev" serves
// the agents on this machine, each at /agents/<its name>; "go run . serve" serves them to others.
// Operators configure it with parley.yaml, which is optional: the address to listen on, the bucket for
// conversations, authentication, destinations of events, and clusters. The file may name an agent of
// the program to mount it elsewhere or to override fields such as its model, limits and instructions.
// A flag overrides an environment variable, such as PARLEY_LISTEN for --listen, which overrides the
// file. If a platform sets PORT and nothing else sets the address, serve listens on that port.
//
// An author who needs only parts of the program uses the packages below it: actors is the runtime,
// http serves it, and neither needs this package. They must not import it. The program connects the
// public packages, and its commands are internal.
//
// A [Program] must not change while it runs, and runs once. Its agents, handlers and observers are
// called from many goroutines. If one of them panics, returns a typed nil as an error, or calls
// runtime.Goexit, only that call fails: a tool, an event, a post, or a request, which gets a 500.
package parley

import (
	"context"
	"io"
	"net/http"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/analyst"
	"github.com/parleyrun/parley/internal/cli/clientcmd"
	"github.com/parleyrun/parley/internal/cli/operator"
	"github.com/parleyrun/parley/internal/cli/server"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/outbox"
	"github.com/parleyrun/parley/providers"
)

// Main runs the program with these agents and the arguments of the process, and exits.
func Main(agents ...*agent.Agent) { (&Program{Agents: agents}).Main() }

// Program holds the parts that an author adds to Parley. The zero value is the program parley.
type Program struct {
	// Agents are served in addition to those of parley.yaml. Names are unique.
	Agents []*agent.Agent
	// Workflows are served too: started at /workflows/<name>, runs at /runs/<id>. Names are unique
	// among workflows.
	Workflows []agent.AnyWorkflow
	// Providers are model vendors by id, such as "house" of "house/large". They replace built-in ones
	// of the same id, and are replaced by those of parley.yaml.
	Providers map[string]providers.Registration
	// Protocols are wire formats of models, by the api that a provider names. [providers.NewHTTP]
	// makes one of a [providers.Codec].
	Protocols map[string]providers.Protocol
	// Middleware wraps Mounts and the agents, the first outermost, inside CORS and the token of
	// parley.yaml. It gets whole paths: /agents/<agent>/<id>. Middleware that responds itself must use
	// LeaveBody of package http for the body. Agents know only the id of a conversation, so middleware
	// that authenticates callers must check that the id belongs to the caller.
	Middleware []func(http.Handler) http.Handler
	// Mounts are handlers next to the agents, by pattern of [http.ServeMux]. The token of parley.yaml
	// protects them, except for each [channels.Route], which verifies its requests, mounted itself or
	// in an [http.ServeMux]. A route inside another handler needs the token. A start fails if a
	// pattern takes the webhooks of a listed channel.
	Mounts map[string]http.Handler
	// Channels makes webhook channels by name: POST /channels/<name>/webhook. They get the dispatcher
	// for [channels.Deliver]. These paths need no token of parley.yaml, because every delivery is
	// verified. A start prints all webhooks, including those of Mounts.
	Channels func(conversation.Dispatcher) (map[string]channels.Channel, error)
	// Observers get the events of a node immediately, best effort: a slow observer misses events.
	// [observability.Callbacks] makes one of functions.
	Observers []observability.Sink
	// Targets get posts of agents, and notices of settlements, by the names in [agent.Outgoing] and
	// [agent.Agent], in addition to webhooks.targets of parley.yaml.
	Targets map[string]outbox.Target
}

// Main runs the program with the arguments of the process until it is done or a signal asks it to shut
// down, and exits.
func (p *Program) Main() {
	own := cli.Program(*p)
	own.Main(commandSets()...)
}

// Run runs a command in this process, like Main, until it is done or ctx ends, and returns its exit
// code.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	own := cli.Program(*p)
	return own.Run(ctx, args, stdout, stderr, commandSets()...)
}

func commandSets() []cli.CommandSet {
	return []cli.CommandSet{server.Commands, clientcmd.Commands, analyst.Commands, operator.Commands}
}
