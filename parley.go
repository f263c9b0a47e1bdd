// Package parley is the program as a library: "parley" with the agents of an author
// compiled in. A main of one line is a whole program:
//
//	func main() { parley.Main(concierge) }
//
// It has every command of cmd/parley, which is the same without an agent. "go run . dev"
// serves the agents on this machine, each at /agents/<its name>, and "go run . serve" does so
// for others. What operators decide is in parley.yaml, which may be missing: where to
// listen, which bucket keeps the conversations, who may come in, where events go, how
// several nodes share the work. It may name an agent of the program to mount it elsewhere or
// to override its model, limits, instructions and others of its fields. A flag goes before
// a variable, such as PARLEY_LISTEN for --listen, and that before the file; where a
// platform sets PORT, and nothing says where to listen, serve listens there.
//
// An author who wants less than the program uses the packages below it: actors is the
// runtime, http serves it, and neither needs this one. Nothing here may be imported by
// them. The program wires what is public, and the commands are internal.
//
// A [Program] is not changed while it runs, and is run once. What its agents, handlers and
// observers do is called from many goroutines. A panic of any of it, a typed nil that it returns
// as an error, or a runtime.Goexit is one failed call: of a tool, an event, a post, or a request,
// which is answered with 500.
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

// Main runs the program with these agents as the process, and ends the process.
func Main(agents ...*agent.Agent) { (&Program{Agents: agents}).Main() }

// Program is what an author compiles in beside what Parley has. The zero value is the
// program parley.
type Program struct {
	// Agents are served beside those of parley.yaml. Names are unique.
	Agents []*agent.Agent
	// Workflows are served beside them: begun at /workflows/<name>, runs at /runs/<id>. Names are unique among workflows.
	Workflows []agent.AnyWorkflow
	// Providers are model vendors by the id that a model names, in place of built-in ones
	// of that id: "house" of "house/large". Those of parley.yaml come before them.
	Providers map[string]providers.Registration
	// Protocols are formats in which models are called, by the api that a provider names.
	// [providers.NewHTTP] makes one of a [providers.Codec].
	Protocols map[string]providers.Protocol
	// Middleware is put before Mounts and the agents, the first outermost, behind CORS and
	// the token of parley.yaml. It sees whole paths: /agents/<agent>/<id>. One that answers by
	// itself leaves the body with LeaveBody of package http. What agents may know of a caller
	// is the conversation's id, so one that knows callers checks whose id it is.
	Middleware []func(http.Handler) http.Handler
	// Mounts are handlers next to the agents', by pattern of [http.ServeMux]. The token of parley.yaml protects them, but
	// for each [channels.Route], which verifies what it takes, mounted itself or in an [http.ServeMux]; a route that
	// another handler wraps needs the token. A start fails if a pattern takes the webhooks of a listed channel.
	Mounts map[string]http.Handler
	// Channels makes the ways in from platforms, by name: POST /channels/<name>/webhook. They get
	// what admits messages, for [channels.Deliver]. The token of parley.yaml is not asked for
	// there, since every delivery is verified. A start prints all webhooks, those of Mounts too.
	Channels func(conversation.Dispatcher) (map[string]channels.Channel, error)
	// Observers get the events of a node at once, as best effort: what one does not take in
	// time it never sees. [observability.Callbacks] makes one of functions.
	Observers []observability.Sink
	// Targets get what agents post, and notices of settlements, by the names that
	// [agent.Outgoing] and [agent.Agent] have, beside webhooks.targets of parley.yaml.
	Targets map[string]outbox.Target
}

// Main runs the program as the process, with its arguments, until it is done or a signal
// asks it to end, and ends the process.
func (p *Program) Main() {
	own := cli.Program(*p)
	own.Main(commandSets()...)
}

// Run runs a command in this process, as Main does, until it is done or ctx ends, and
// returns its exit code.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	own := cli.Program(*p)
	return own.Run(ctx, args, stdout, stderr, commandSets()...)
}

func commandSets() []cli.CommandSet {
	return []cli.CommandSet{server.Commands, clientcmd.Commands, analyst.Commands, operator.Commands}
}
