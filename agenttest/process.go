package agenttest

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/parleyrun/parley/actors"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/storagetest"
)

// quiet is the interval of heartbeats. It is long because no node here misses one, and virtual days
// would have many.
const quiet = time.Hour

// process is one incarnation of a host's server.
type process struct {
	host    *Host
	runtime *actors.Runtime
	handler *parleyhttp.Handler
	crashed atomic.Bool // crashed: remaining goroutines reach nothing

	connCtx     context.Context // context of its connections
	cancelConns context.CancelFunc
	runCtx      context.Context // context of Run
	stop        context.CancelFunc
	ended       chan struct{}
	err         error // error of Run, once ended is closed
}

func newProcess(h *Host) (*process, error) {
	p := &process{host: h, ended: make(chan struct{})}
	p.connCtx, p.cancelConns = context.WithCancel(context.Background())
	p.runCtx, p.stop = context.WithCancel(context.Background())
	o := h.opts.Runtime
	o.Agents, o.Cluster, o.SweepEvery = slices.Clone(h.agents), nil, cmp.Or(o.SweepEvery, quiet)
	for _, w := range h.opts.Workflows {
		o.Agents = append(o.Agents, w.Definition())
	}
	o.Logger = slog.New(muted{h.opts.Logger.Handler(), &p.crashed})
	o.Events.Sinks = append(slices.Clone(o.Events.Sinks), recorder{p})
	var err error
	if o.Providers, err = p.newRegistry(); err != nil {
		return nil, err
	}
	if p.runtime, err = actors.New(storagetest.Through(h.store, p.intercept), &o); err != nil {
		return nil, err
	}
	var mounts []parleyhttp.Mount
	for _, a := range h.agents {
		mounts = append(mounts, parleyhttp.Mount{Path: mountOf(a.Name), Agent: a.Name})
	}
	p.handler, err = parleyhttp.New(p.runtime, p.runtime.Reader(), mounts, &parleyhttp.Options{
		Logger: o.Logger, Dev: true, Heartbeat: quiet, ControlEvery: quiet, LongPoll: quiet,
	})
	return p, err
}

func mountOf(agentName string) string { return "/agents/" + agentName }

func (p *process) run() {
	defer close(p.ended)
	defer p.cancelConns()
	p.err = p.runtime.Run(p.runCtx)
}

// kill cuts the process off from its store and its connections; its goroutines end by themselves.
func (p *process) kill() {
	p.crashed.Store(true)
	p.cancelConns()
	p.stop()
}

// intercept forwards a call of the process to its store, unless the process has crashed.
func (p *process) intercept(ctx context.Context, c *storagetest.Call) error {
	if p.crashed.Load() {
		return &storage.Error{Op: c.Method, Key: c.Key, Kind: storage.ErrRefused}
	}
	err := c.Do(ctx)
	if err == nil && c.Method != "GET" && c.Method != "LIST" {
		p.host.wrote(p)
	}
	if p.crashed.Load() {
		return c.Unanswered(context.Canceled)
	}
	return err
}

// muted is a slog.Handler that drops records after a crash.
type muted struct {
	slog.Handler
	crashed *atomic.Bool
}

func (m muted) Enabled(ctx context.Context, level slog.Level) bool {
	return !m.crashed.Load() && m.Handler.Enabled(ctx, level)
}

func (m muted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return muted{m.Handler.WithAttrs(attrs), m.crashed}
}

func (m muted) WithGroup(name string) slog.Handler {
	return muted{m.Handler.WithGroup(name), m.crashed}
}

// recorder is a sink that records the events of a process.
type recorder struct{ *process }

func (r recorder) Name() string { return "agenttest" }

func (r recorder) Write(_ context.Context, events []observability.Event) error {
	if r.crashed.Load() {
		return context.Canceled
	}
	h := r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		if !h.seen[e.ID] {
			h.seen[e.ID] = true
			h.events = append(h.events, e)
		}
	}
	return nil
}
