package agenttest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parleyrun/parley/actors"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/client"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/devlog"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/storage"
	"github.com/parleyrun/parley/storage/local"
)

// DefaultPatience is the default timeout for a reply.
const DefaultPatience = 30 * 24 * time.Hour

// Options are the optional parts of a [Host]. Nil and zero fields select the defaults.
type Options struct {
	// Model answers the calls of all models that Models does not list. Nil is a model without answers.
	Model *Model
	// Models lists models by the name that agents use, such as "openai/gpt-5". Only these models and
	// those that agents name exist.
	Models map[string]*Model
	// Workflows are served in addition to the agents.
	Workflows []agent.AnyWorkflow
	// Patience is the timeout of the methods of a Host. Zero is [DefaultPatience]. The default is long
	// because time is virtual in a bubble; outside of one the timeout of the test comes first.
	Patience time.Duration
	// Runtime configures the runtime, such as limits and delays. The Host sets Agents, Providers,
	// Cluster and Logger.
	Runtime actors.Options
	// Logger receives the log of the runtime. Nil writes warnings and errors to the log of the test.
	Logger *slog.Logger
}

// Host is a server of agents within a test.
type Host struct {
	t      testing.TB
	opts   Options
	agents []*agent.Agent
	store  *local.Store

	processes sync.WaitGroup // processes and the goroutines that start them

	mu     sync.Mutex
	now    *process // the serving process; nil only before the first
	left   int      // writes until the crash; 0 for none
	closed bool
	events []observability.Event
	seen   map[string]bool // ids of events
}

// New returns a host that serves agents until the test ends. An invalid definition fails the test. If
// the test uses a bubble of testing/synctest, call New inside of it.
func New(t testing.TB, agents []*agent.Agent, o *Options) *Host {
	t.Helper()
	h := &Host{t: t, agents: agents, store: local.NewMemory(), seen: map[string]bool{}}
	if o != nil {
		h.opts = *o
	}
	h.opts.Patience = cmp.Or(h.opts.Patience, DefaultPatience)
	if h.opts.Logger == nil {
		h.opts.Logger = slog.New(devlog.New(t.Output(), slog.LevelWarn))
	}
	if h.opts.Model == nil {
		h.opts.Model = NewModel()
	}
	t.Cleanup(h.close)
	if err := h.start(); err != nil {
		t.Fatal(err)
	}
	return h
}

// start starts the next process and waits until it serves.
func (h *Host) start() error {
	p, err := newProcess(h)
	if err != nil {
		return err
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		p.stop()
		return nil
	}
	h.now = p
	h.processes.Go(p.run)
	h.mu.Unlock()
	select {
	case <-p.runtime.Ready():
		return nil
	case <-p.ended:
		return p.err
	}
}

func (h *Host) close() {
	h.mu.Lock()
	h.closed = true
	p := h.now
	h.mu.Unlock()
	if p != nil {
		h.end(p)
	}
	h.processes.Wait()
	time.Sleep(2 * time.Millisecond) // The actor system's dead-letter counter stops by itself within this time.
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// end shuts a process down.
func (h *Host) end(p *process) {
	p.handler.Drain()
	p.stop()
	<-p.ended
	if p.err != nil && !p.crashed.Load() {
		h.t.Errorf("runtime stopped: %v", p.err)
	}
}

func (h *Host) current() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// Runtime returns the runtime of the current process. It changes with each crash or restart.
func (h *Host) Runtime() *actors.Runtime { return h.current().runtime }

// Crash kills the process, as kill -9 does, and starts the next one over the same store. A tool or a
// model may call it; its context is then canceled.
func (h *Host) Crash() {
	h.t.Helper()
	h.current().kill()
	if err := h.start(); err != nil {
		h.t.Errorf("start after crash: %v", err)
	}
}

// CrashAtWrite crashes the process after n more writes, at least 1, and starts the next one. A loop
// over n covers every state that a crash can leave in the store.
func (h *Host) CrashAtWrite(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = n
}

func (h *Host) wrote(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now != p || h.left == 0 || h.closed {
		return
	}
	if h.left--; h.left > 0 {
		return
	}
	p.kill()
	h.processes.Go(func() {
		if err := h.start(); err != nil {
			h.t.Errorf("start after crash: %v", err)
		}
	})
}

// Restart shuts the process down and starts the next one.
func (h *Host) Restart() {
	h.t.Helper()
	h.end(h.current())
	if err := h.start(); err != nil {
		h.t.Fatalf("restart: %v", err)
	}
}

// Events returns the durable observability events so far, each once, in the order of their export:
// ends of turns and tool calls, settlements. The delay is up to a second, or a minute if the process
// ended in between.
func (h *Host) Events() []observability.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Conversation returns a conversation of an agent. Its first message creates it.
func (h *Host) Conversation(agentName, id string) *Conversation {
	h.t.Helper()
	c, err := client.New(client.JoinID("http://"+origin+mountOf(agentName), id), &client.Options{
		HTTPClient: &http.Client{Transport: h}, Logger: h.opts.Logger, Quiet: 3 * quiet,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return &Conversation{Conversation: c, host: h, at: conversation.Address{Agent: agentName, ID: id}}
}

func (h *Host) waitContext() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(h.t.Context(), h.opts.Patience, errors.New("timeout of Options.Patience"))
}

// DeadLetters returns the dead letters, sorted by conversation and post.
func (h *Host) DeadLetters() (deadLetters []storage.DeadLetter) {
	h.t.Helper()
	ctx, cancel := h.waitContext()
	defer cancel()
	if err := storage.EachDeadLetter(ctx, h.store, func(l storage.DeadLetter, err error) error {
		deadLetters = append(deadLetters, l)
		return err
	}); err != nil {
		h.t.Fatalf("read dead letters: %v", err)
	}
	return deadLetters
}
