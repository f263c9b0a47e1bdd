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

// quiet is the time between two signs of life, which nobody misses on the way to here: virtual days
// have few of them.
const quiet = time.Hour

// process is one life of a host's server.
type process struct {
	host    *Host
	runtime *actors.Runtime
	handler *parleyhttp.Handler
	dead    atomic.Bool // it has crashed: what is left of it in memory reaches nothing

	life   context.Context // of its connections
	cut    context.CancelFunc
	during context.Context // of Run
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // of Run, once ended is closed
}

func newProcess(h *Host) (*process, error) {
	p := &process{host: h, ended: make(chan struct{})}
	p.life, p.cut = context.WithCancel(context.Background())
	p.during, p.stop = context.WithCancel(context.Background())
	o := h.opts.Runtime
	o.Agents, o.Cluster, o.SweepEvery = slices.Clone(h.agents), nil, cmp.Or(o.SweepEvery, quiet)
	for _, w := range h.opts.Workflows {
		o.Agents = append(o.Agents, w.Definition())
	}
	o.Logger = slog.New(mortal{h.opts.Logger.Handler(), &p.dead})
	o.Events.Sinks = append(slices.Clone(o.Events.Sinks), recorder{p})
	var err error
	if o.Providers, err = p.newRegistry(); err != nil {
		return nil, err
	}
	if p.runtime, err = actors.New(storagetest.Through(h.store, p.carry), &o); err != nil {
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
	defer p.cut()
	p.err = p.runtime.Run(p.during)
}

// die lets nothing through any more, and what is left in memory end by itself.
func (p *process) die() {
	p.dead.Store(true)
	p.cut()
	p.stop()
}

// carry brings what the process does to its store.
func (p *process) carry(ctx context.Context, c *storagetest.Call) error {
	if p.dead.Load() {
		return &storage.Error{Op: c.Method, Key: c.Key, Kind: storage.ErrRefused}
	}
	err := c.Do(ctx)
	if err == nil && c.Method != "GET" && c.Method != "LIST" {
		p.host.wrote(p)
	}
	if p.dead.Load() {
		return c.Unanswered(context.Canceled)
	}
	return err
}

// mortal is silent about what happens after a crash.
type mortal struct {
	slog.Handler
	dead *atomic.Bool
}

// Enabled implements slog.Handler.
func (m mortal) Enabled(ctx context.Context, level slog.Level) bool {
	return !m.dead.Load() && m.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (m mortal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return mortal{m.Handler.WithAttrs(attrs), m.dead}
}

// WithGroup implements slog.Handler.
func (m mortal) WithGroup(name string) slog.Handler { return mortal{m.Handler.WithGroup(name), m.dead} }

// recorder keeps the events that a process exports.
type recorder struct{ *process }

// Name implements observability.Sink.
func (r recorder) Name() string { return "agenttest" }

// Write implements observability.Sink.
func (r recorder) Write(_ context.Context, events []observability.Event) error {
	if r.dead.Load() {
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
