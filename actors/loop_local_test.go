package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/chaos"
	"github.com/parleyrun/parley/storage"
)

// LocalFleet makes runtimes that need no sockets, so that tests of this package's
// surface can run in a bubble. It is made outside of the bubble: its actor system is
// slow to make.
type LocalFleet struct {
	system *actor.ActorSystem

	// Wall is the wall clock of the nodes that are made from then on, nil for the usual one.
	Wall func() time.Time
	// Members makes the nodes that are made from then on members of their bucket, which must be a shared one.
	Members bool

	mu    sync.Mutex
	nodes int
}

// NewLocalFleet returns a fleet that ends with the test.
func NewLocalFleet(t *testing.T) *LocalFleet { return &LocalFleet{system: newSimSystem(t)} }

// ShowAtMost bounds what a model is shown, in place of maxViewBytes.
func (r *Runtime) ShowAtMost(bytes int) { r.work.ViewBytes = bytes }

// SetPageBytes sets about how large the pages of a runtime's history are, which does not run
// yet; 0 changes nothing.
func (r *Runtime) SetPageBytes(n int) {
	if n > 0 {
		r.history.PageBytes = n
	}
}

// SetWall sets the wall clock of a runtime that does not run yet.
func (r *Runtime) SetWall(wall func() time.Time) { r.world.wall = wall }

// InMemory reports whether a conversation is in memory.
func (r *Runtime) InMemory(at conversation.Address) bool {
	_, here := r.active.of(at.Key())
	return here
}

// Node makes a runtime, and what kills it as the end of its process does. Its
// history has pages of about that size, 0 for the usual one.
func (f *LocalFleet) Node(t testing.TB, bucket storage.Bucket, opts *Options, page int) (*Runtime, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes++
	rt, err := newRuntime(bucket, opts)
	if err != nil {
		return nil, nil, err
	}
	rt.SetPageBytes(page)
	if f.Wall != nil {
		rt.world.wall = f.Wall
	}
	name := fmt.Sprintf("local-%d", f.nodes)
	site := chaos.Site{
		Member: name, Owner: func(string) string { return name },
		Message:  func(context.Context, string, string) chaos.Course { return chaos.Course{} },
		Panicked: func(reason any, stack []byte) { t.Errorf("an actor panicked: %v\n%s", reason, stack) },
	}
	h := newSimHost(site, &simFleet{system: f.system, hosts: map[string]*simHost{}})
	h.rt = rt
	if f.Members {
		return rt, h.kill, rt.attach(&joiningHost{h, rt.nodes.members})
	}
	return rt, h.kill, rt.attach(h)
}

// joiningHost is a simHost that keeps a row among the members of its bucket.
type joiningHost struct {
	*simHost
	members *members
}

func (h *joiningHost) Start(ctx context.Context) error {
	if err := h.members.Join(ctx, grain.Member{ID: h.MemberID(), Host: h.MemberID(), Port: 1}, func([]grain.Member) {}); err != nil {
		return err
	}
	return h.simHost.Start(ctx)
}

func (h *joiningHost) Stop(ctx context.Context) error {
	return errors.Join(h.simHost.Stop(ctx), h.members.Leave(ctx))
}
