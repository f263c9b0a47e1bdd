package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
)

// observer is the admin listener of a node. It may have none.
type observer struct {
	listener net.Listener // nil if there is none
	profiles bool
	meter    *admin.Meter
	agents   *admin.Agents
	process  func() admin.Process // set before run, or nil
	log      *slog.Logger
}

// newObserver opens the admin listener of a configuration.
func newObserver(file string, conf *config.Server, log *slog.Logger) (*observer, error) {
	o := &observer{log: log, profiles: conf.Admin.Profiles}
	if conf.Admin.Listen == "" {
		return o, nil
	}
	var err error
	o.listener, err = listen(conf.Admin.Listen, "set another address at admin.listen in "+file)
	o.meter, o.agents = admin.NewMeter(), admin.NewAgents(toolNames(conf))
	return o, err
}

// close closes the listener. It may be called twice.
func (o *observer) close() {
	if o.listener != nil {
		_ = o.listener.Close()
	}
}

// address returns the address of the listener, nil without one.
func (o *observer) address() net.Addr {
	if o.listener == nil {
		return nil
	}
	return o.listener.Addr()
}

// measure returns the bucket decorator for metrics, nil without a listener.
func (o *observer) measure() func(storage.Bucket) storage.Bucket {
	if o.meter == nil {
		return nil
	}
	return o.meter.Bucket
}

// toolNames returns the tools of the agents of a configuration and of their subagents. The function of
// a workflow counts as a tool with the workflow's name.
func toolNames(conf *config.Server) (names []string) {
	var add func(a *agent.Agent)
	add = func(a *agent.Agent) {
		for _, t := range a.Tools {
			names = append(names, t.Name())
		}
		for _, sub := range a.Subagents {
			add(sub)
		}
	}
	for _, a := range conf.Agents {
		add(a.Agent)
	}
	return append(names, conf.Workflows...)
}

// sinks returns the sinks that the metrics need.
func (o *observer) sinks() []observability.Sink {
	if o.agents == nil {
		return nil
	}
	return []observability.Sink{o.agents}
}

// measured returns a handler that measures requests.
func (o *observer) measured(h http.Handler) http.Handler {
	if o.agents == nil {
		return h
	}
	return o.agents.Middleware(h)
}

// run serves a node, and its health and metrics from before it starts until after it has ended.
func (o *observer) run(ctx context.Context, status func() actors.Status, serve func(context.Context) error) error {
	if o.listener == nil {
		return serve(ctx)
	}
	server, err := admin.New(status, &admin.Options{Logger: o.log, Version: cli.Version(), Meter: o.meter, Agents: o.agents, Process: o.process, Profiles: o.profiles})
	if err != nil {
		return fmt.Errorf("make the admin server: %w", err)
	}
	up, down := context.WithCancel(context.WithoutCancel(ctx))
	defer down()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(up, o.listener) })
	g.Go(func() error {
		defer down()
		return serve(ctx)
	})
	return g.Wait()
}
