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

// DefaultPatience is how long a test waits for a reply.
const DefaultPatience = 30 * 24 * time.Hour

// Options are the optional parts of a [Host]. Nil and every zero field mean the defaults.
type Options struct {
	// Model answers the calls of all models that Models does not name. Nil is one that has no
	// answers.
	Model *Model
	// Models answer the calls of single models, by what agents name: "openai/gpt-5". Only models
	// that agents name, and these, exist.
	Models map[string]*Model
	// Workflows are served beside the agents.
	Workflows []agent.AnyWorkflow
	// Patience bounds what the methods of a Host wait for. Zero is [DefaultPatience]: much, as it
	// is virtual in a bubble, and outside of one the test's own time-out comes first.
	Patience time.Duration
	// Runtime are options of the runtime, such as bounds and pauses. Agents, Providers,
	// Cluster and Logger are the Host's.
	Runtime actors.Options
	// Logger gets what operators need to know. Nil writes warnings and errors to the log of
	// the test.
	Logger *slog.Logger
}

// Host is a server of agents that lives in a test.
type Host struct {
	t      testing.TB
	opts   Options
	agents []*agent.Agent
	store  *local.Store

	lives sync.WaitGroup // processes, and what starts them

	mu     sync.Mutex
	now    *process // that serves; nil only before the first
	left   int      // writes until it crashes; 0 is never
	closed bool
	events []observability.Event
	seen   map[string]bool // their ids
}

// New returns a host that serves agents until the test ends. A wrong definition fails the test. In a
// bubble of testing/synctest, call it inside of the bubble.
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

// start makes the next process and waits until it serves.
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
	h.lives.Go(p.run)
	h.mu.Unlock()
	select {
	case <-p.runtime.Ready():
		return nil
	case <-p.ended:
		return p.err
	}
}

// close ends the host in an orderly way.
func (h *Host) close() {
	h.mu.Lock()
	h.closed = true
	p := h.now
	h.mu.Unlock()
	if p != nil {
		h.end(p)
	}
	h.lives.Wait()
	time.Sleep(2 * time.Millisecond) // The actor system's count of dead letters ends by itself, within one.
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// end stops a process in an orderly way.
func (h *Host) end(p *process) {
	p.handler.Drain()
	p.stop()
	<-p.ended
	if p.err != nil && !p.dead.Load() {
		h.t.Errorf("the runtime ended: %v", p.err)
	}
}

// current is the process that serves now.
func (h *Host) current() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// Runtime is that of the process that serves now. After a crash it is another.
func (h *Host) Runtime() *actors.Runtime { return h.current().runtime }

// Crash ends the process where it stands, as kill -9 does, and starts the next one over what was
// written. It may be called from a tool or a model, whose context ends.
func (h *Host) Crash() {
	h.t.Helper()
	h.current().die()
	if err := h.start(); err != nil {
		h.t.Errorf("start after a crash: %v", err)
	}
}

// CrashAtWrite lets the process crash when it has written n more times, 1 or more, and starts the
// next one. A loop over n visits every state that a crash can leave behind.
func (h *Host) CrashAtWrite(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = n
}

// wrote counts a write of a process.
func (h *Host) wrote(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now != p || h.left == 0 || h.closed {
		return
	}
	if h.left--; h.left > 0 {
		return
	}
	p.die()
	h.lives.Go(func() {
		if err := h.start(); err != nil {
			h.t.Errorf("start after a crash: %v", err)
		}
	})
}

// Restart ends the process in an orderly way and starts the next one.
func (h *Host) Restart() {
	h.t.Helper()
	h.end(h.current())
	if err := h.start(); err != nil {
		h.t.Fatalf("start again: %v", err)
	}
}

// Events are the durable observability events so far, in the order in which they were exported, each
// once: the ends of turns and tools, settlements. They come up to a second after what they tell of, and
// up to a minute after it if the process ended in between.
func (h *Host) Events() []observability.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// Conversation is a conversation of an agent, which begins with its first message.
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

// patient bounds a wait.
func (h *Host) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(h.t.Context(), h.opts.Patience, errors.New("nothing came within Options.Patience"))
}

// DeadLetters returns what refers to the posts that were given up, by conversation and post.
func (h *Host) DeadLetters() (letters []storage.DeadLetter) {
	h.t.Helper()
	ctx, cancel := h.patient()
	defer cancel()
	if err := storage.EachDeadLetter(ctx, h.store, func(l storage.DeadLetter, err error) error {
		letters = append(letters, l)
		return err
	}); err != nil {
		h.t.Fatalf("read dead letters: %v", err)
	}
	return letters
}
