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

// LocalFleet creates runtimes without sockets, so that external tests can run in a bubble. It is
// created outside of the bubble, because its actor system is slow to create.
type LocalFleet struct {
	system *actor.ActorSystem

	// Wall is the wall clock of later nodes, nil for the default.
	Wall func() time.Time
	// Members makes later nodes members of their bucket, which must be shared.
	Members bool

	mu    sync.Mutex
	nodes int
}

// NewLocalFleet returns a fleet that ends with the test.
func NewLocalFleet(t *testing.T) *LocalFleet { return &LocalFleet{system: newSimSystem(t)} }

// ShowAtMost replaces maxViewBytes, the bound of a prompt.
func (r *Runtime) ShowAtMost(bytes int) { r.work.ViewBytes = bytes }

// SetPageBytes sets the approximate page size of a runtime's history before it runs; 0 changes
// nothing.
func (r *Runtime) SetPageBytes(n int) {
	if n > 0 {
		r.history.PageBytes = n
	}
}

// SetWall sets the wall clock of a runtime before it runs.
func (r *Runtime) SetWall(wall func() time.Time) { r.world.wall = wall }

// InMemory reports whether a conversation is in memory.
func (r *Runtime) InMemory(at conversation.Address) bool {
	_, here := r.active.of(at.Key())
	return here
}

// Node creates a runtime and a function that kills it like a crash of its process. Page is the
// approximate page size of its history, 0 for the default.
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

// joiningHost is a simHost with a row in the member list of its bucket.
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
