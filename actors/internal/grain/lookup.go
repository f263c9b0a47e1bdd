package grain

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
)

// placementName is the well-known name of every member's placement actor. It is part of the wire
// protocol.
const placementName = "placement"

// activationTimeout bounds one call to an owner. Activation is idempotent, so a lost call is retried.
const activationTimeout = 2 * time.Second

// lookup is the identity lookup: it maps an identity to its owner and asks the owner for the
// activation. Readers load the current view from an atomic pointer and never wait for a writer.
type lookup struct {
	kind     string
	log      *slog.Logger
	system   *actor.ActorSystem
	props    *actor.Props
	calls    *calls
	cache    *pidCache
	handOver time.Duration // timeout of a handover
	cedes    time.Duration // time that a requested identity is not activated here
	releases releases

	view   atomic.Pointer[view]
	active atomic.Int64 // activations of this member; written by the placement actor only

	ready     chan struct{} // closed when the first view with this member is installed
	readyOnce sync.Once

	placement *actor.PID // set by Setup, before any request
}

var _ cluster.IdentityLookup = (*lookup)(nil)

// Setup implements cluster.IdentityLookup and spawns the placement actor. The system is fresh, so a
// taken name is a broken invariant.
func (l *lookup) Setup(*cluster.Cluster, []string, bool) {
	pid, err := l.system.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor {
		return newPlacement(l)
	}), placementName)
	if err != nil {
		panic(fmt.Errorf("spawn placement actor: %w", err))
	}
	l.placement = pid
}

// install replaces the view. It is called by one goroutine at a time. The view is replaced before
// calls to members that left are failed; calls.ask relies on that order. The library's member list is
// not used: it has no weights, publishes no change of them, and permanently blocks a member that is
// missing from one view, in a list that it accesses without a lock.
func (l *lookup) install(v *view) {
	old := l.view.Load()
	v.follow(old, settleTime)
	l.view.Store(v)
	for _, n := range old.nodes {
		if n.address == l.system.Address() || v.hasID(n.ID) {
			continue
		}
		l.cache.removeAddress(n.address)
		l.calls.answerAll(n.address, memberLeft{})
		l.system.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: n.address})
	}
	l.cache.retain(v.owner)
	l.system.Root.Send(l.placement, viewChanged{})
	if v.has(l.system.Address()) {
		l.readyOnce.Do(func() { close(l.ready) })
	}
}

func (l *lookup) isUp(address string) bool { return l.view.Load().has(address) }

func (l *lookup) owns(id string) bool {
	return l.view.Load().owner(id) == l.system.Address()
}

// activate returns the PID of the identity's activation. Its owner creates the activation if
// necessary.
func (l *lookup) activate(ctx context.Context, ci *cluster.ClusterIdentity) (*actor.PID, error) {
	owner := l.view.Load().owner(ci.Identity)
	if owner == "" {
		return nil, errNoMember
	}
	ctx, cancel := context.WithTimeout(ctx, activationTimeout)
	defer cancel()
	reply, err := l.calls.ask(ctx, actor.NewPID(owner, placementName), &cluster.ActivationRequest{ClusterIdentity: ci})
	if err != nil {
		return nil, fmt.Errorf("activate at %s: %w", owner, err)
	}
	r, ok := reply.(*cluster.ActivationResponse)
	if !ok || r.Failed || r.Pid == nil {
		return nil, fmt.Errorf("activate at %s: %w", owner, errRefused)
	}
	return r.Pid, nil
}

// Get implements cluster.IdentityLookup. It returns nil if there is no owner now.
func (l *lookup) Get(ci *cluster.ClusterIdentity) *actor.PID {
	pid, err := l.activate(context.Background(), ci)
	if err != nil {
		return nil
	}
	return pid
}

// RemovePid implements cluster.IdentityLookup. The placement actor watches its activations itself.
func (l *lookup) RemovePid(*cluster.ClusterIdentity, *actor.PID) {}

// drain stops all activations of this member, prevents new ones, and waits for the last to end.
func (l *lookup) drain(ctx context.Context) error {
	d := drain{done: make(chan struct{})}
	l.system.Root.Send(l.placement, d)
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop activations: %d still running: %w", l.active.Load(), ctx.Err())
	}
}

// Shutdown implements cluster.IdentityLookup. After drain the placement actor has no children to wait
// for.
func (l *lookup) Shutdown() {
	if err := l.system.Root.StopFuture(l.placement).Wait(); err != nil {
		l.log.Warn("placement actor did not stop", "err", err)
	}
}

// abandon shuts down like Shutdown, without waiting, after a drain that did not finish.
func (l *lookup) abandon() {
	l.system.Root.Stop(l.placement)
}
