package grain

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"

	"github.com/parleyrun/parley/actors/internal/wire"
)

// maxWaiting bounds the callers that wait for one activation to end. Further callers are refused and
// retry after a backoff.
const maxWaiting = 1024

// Messages within one process.
type (
	// viewChanged makes the placement actor look for activations that moved to another member.
	viewChanged struct{}
	// drain makes it stop all activations; it closes done when the last has ended.
	drain struct{ done chan struct{} }
	// leaving is sent by an activation before it stops itself; see Passivate.
	leaving struct{ pid *actor.PID }
	// handOverTimeout is sent when an activation's time to hand over has expired.
	handOverTimeout struct{ pid *actor.PID }
)

// slot is one identity with an activation on this member.
type slot struct {
	ci      *cluster.ClusterIdentity
	pid     *actor.PID
	phase   slotPhase
	waiting []*actor.PID // callers that wait for the next activation
	asked   []*actor.PID // members to notify when it has ended
	limit   *time.Timer  // handover timeout; nil before
}

type slotPhase int

const (
	slotRuns    slotPhase = iota
	slotHanding           // HandOver was sent
	slotStops             // *actor.Stop was sent
)

// placement starts and stops the activations of this member, which are its children. It never blocks,
// so that a slow activation does not delay another identity.
type placement struct {
	lookup *lookup
	byID   map[string]*slot
	byPID  map[string]*slot     // Invariant: the same slots as byID
	ceded  map[string]time.Time // identities requested by other members, until when
	drains []drain
}

func newPlacement(l *lookup) *placement {
	l.active.Store(0)
	return &placement{lookup: l, byID: make(map[string]*slot), byPID: make(map[string]*slot), ceded: make(map[string]time.Time)}
}

// Receive implements actor.Actor.
func (p *placement) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *cluster.ActivationRequest:
		if ci := m.GetClusterIdentity(); ci != nil && ctx.Sender() != nil {
			p.activate(ctx, ci, ctx.Sender())
		}
	case *actor.Terminated:
		p.terminated(ctx, m.Who)
	case leaving:
		if s := p.byPID[m.pid.Id]; s != nil {
			s.phase = slotStops
		}
	case viewChanged:
		clear(p.ceded)
		for id, s := range p.byID {
			if !p.lookup.owns(id) {
				p.handOver(ctx, s)
			}
		}
	case *wire.Release:
		if ctx.Sender() != nil {
			p.release(ctx, m.GetConversation(), ctx.Sender())
		}
	case handOverTimeout:
		p.handOverExpired(ctx, m.pid)
	case drain:
		p.drains = append(p.drains, m)
		for _, s := range p.byID {
			p.stop(ctx, s)
		}
		p.checkDrained()
	}
}

func (p *placement) activate(ctx actor.Context, ci *cluster.ClusterIdentity, caller *actor.PID) {
	s := p.byID[ci.Identity]
	switch {
	case ci.Kind != p.lookup.kind:
		refuse(ctx, caller)
	case s != nil && s.phase == slotRuns:
		ctx.Send(caller, &cluster.ActivationResponse{Pid: s.pid})
	case s != nil && len(s.waiting) < maxWaiting:
		s.waiting = append(s.waiting, caller)
	case s != nil, len(p.drains) > 0, !p.lookup.owns(ci.Identity), p.isCeded(ci.Identity):
		refuse(ctx, caller)
	default:
		p.start(ctx, ci, caller)
	}
}

func (p *placement) start(ctx actor.Context, ci *cluster.ClusterIdentity, caller *actor.PID) {
	pid, err := p.spawn(ctx, ci)
	if err != nil {
		p.lookup.log.Error("start activation failed", "conversation", ci.Identity, "err", err)
		refuse(ctx, caller)
		return
	}
	s := &slot{ci: ci, pid: pid}
	p.byID[ci.Identity] = s
	p.byPID[pid.Id] = s
	p.lookup.active.Store(int64(len(p.byPID)))
	ctx.Send(caller, &cluster.ActivationResponse{Pid: pid})
}

// spawn contains a panic of the producer, which runs on this goroutine and must not affect the other
// activations of this member.
func (p *placement) spawn(ctx actor.Context, ci *cluster.ClusterIdentity) (pid *actor.PID, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("create actor: panic: %s", panicText(r))
		}
	}()
	// ctx.Spawn would keep each PID in the backing array of its set of children until a later child
	// replaces it. The placement tracks its children itself.
	system := ctx.ActorSystem()
	name := ctx.Self().Id + "/" + ci.Identity + system.ProcessRegistry.NextID()
	return actor.DefaultSpawner(system, name, cluster.WithClusterIdentity(p.lookup.props, ci), ctx)
}

func (p *placement) stop(ctx actor.Context, s *slot) {
	if s.phase != slotStops {
		s.phase = slotStops
		ctx.Stop(s.pid)
	}
}

func (p *placement) terminated(ctx actor.Context, pid *actor.PID) {
	s := p.byPID[pid.Id]
	if s == nil {
		return
	}
	delete(p.byPID, pid.Id)
	delete(p.byID, s.ci.Identity)
	if len(p.byID) == 0 {
		p.byID, p.byPID = make(map[string]*slot), make(map[string]*slot) // release the memory of the maps, which never shrink
	}
	p.lookup.active.Store(int64(len(p.byPID)))
	p.handedOver(ctx, s)
	for _, caller := range s.waiting {
		p.activate(ctx, s.ci, caller)
	}
	p.checkDrained()
}

func (p *placement) checkDrained() {
	if len(p.byPID) > 0 {
		return
	}
	for i, d := range p.drains {
		if d.done != nil {
			close(d.done)
			p.drains[i].done = nil
		}
	}
}

func refuse(ctx actor.Context, caller *actor.PID) {
	ctx.Send(caller, &cluster.ActivationResponse{Failed: true})
}
