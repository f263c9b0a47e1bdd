package actors

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/grain"
	"github.com/parleyrun/parley/internal/chaos"
	"github.com/parleyrun/parley/memory"
)

var (
	errSimDeadLetter = errors.New("dead letter")
	errSimStopped    = errors.New("host is not running")
)

// simFleet is the hosts of one schedule by member id. Their activations share one actor system, but
// nothing of it except the unique PIDs.
type simFleet struct {
	system *actor.ActorSystem

	mu    sync.Mutex
	hosts map[string]*simHost
	idle  []*memory.Idle // of all nodes so far
}

// watch registers the idle account of a node.
func (f *simFleet) watch(i *memory.Idle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = append(f.idle, i)
}

// gaveWay counts early evictions of idle conversations.
func (f *simFleet) gaveWay() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.idle {
		for _, u := range i.Usage() {
			if u.Consumer == "conversations" {
				n += int(u.Crowded)
			}
		}
	}
	return n
}

// newSimSystem creates an actor system. Its process table is large and slow to create, so one serves
// many schedules. It is created outside of their bubbles; everything that blocks or waits belongs to
// the actors, which are created inside.
func newSimSystem(t *testing.T) *actor.ActorSystem {
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
		actor.WithDeadLetterRequestLogging(false),
		actor.WithDeadLetterThrottleInterval(time.Millisecond),
	)
	t.Cleanup(system.Shutdown)
	return system
}

func (f *simFleet) host(member string) *simHost {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[member]
}

// simHost is a host without sockets: a plain actor system whose activations the other hosts of the
// fleet call directly. Each host sends a request to the member that it considers the owner; that
// member accepts it.
type simHost struct {
	site   chaos.Site
	fleet  *simFleet
	rt     *Runtime
	system *actor.ActorSystem
	gone   chan struct{} // closed when it stops or crashes

	mu      sync.Mutex
	running bool
	slots   map[string]*simSlot
}

// simSlot is one activation.
type simSlot struct {
	pid   *actor.PID
	ended chan struct{}
}

func newSimHost(site chaos.Site, fleet *simFleet) *simHost {
	h := &simHost{site: site, fleet: fleet, system: fleet.system, gone: make(chan struct{}), slots: map[string]*simSlot{}}
	fleet.mu.Lock()
	defer fleet.mu.Unlock()
	fleet.hosts[site.Member] = h
	return h
}

func (h *simHost) MemberID() string { return h.site.Member }

func (h *simHost) Start(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.gone:
		return errSimStopped
	default:
	}
	h.running = true
	return nil
}

func (h *simHost) Stop(ctx context.Context) error {
	for _, s := range h.close() {
		h.system.Root.Stop(s.pid)
		select {
		case <-s.ended:
		case <-ctx.Done():
			return fmt.Errorf("stop activations: %w", ctx.Err())
		}
	}
	return nil
}

// kill stops every activation without cleanup.
func (h *simHost) kill() {
	for _, s := range h.close() {
		h.system.Root.Stop(s.pid)
		<-s.ended
	}
}

// close rejects further requests and returns the running activations.
func (h *simHost) close() []*simSlot {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = false
	select {
	case <-h.gone:
	default:
		close(h.gone)
	}
	var out []*simSlot
	for _, s := range h.slots {
		out = append(out, s)
	}
	return out
}

// Request implements host like package grain: it retries a request that certainly reached no actor.
func (h *simHost) Request(ctx context.Context, id string, m proto.Message) (proto.Message, error) {
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	desc := fmt.Sprintf("%T %x", proto.Clone(m), content)
	last := errSimStopped
	apart := fnv.New32a() // Requests rejected by one activation retry in a deterministic order.
	apart.Write([]byte(desc))
	jitter := time.Duration(apart.Sum32() % uint32(time.Millisecond))
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if peer := h.fleet.host(h.site.Owner(id)); peer != nil {
			reply, err := h.ask(ctx, peer, id, m, h.site.Message(ctx, id, desc))
			if err == nil || !errors.Is(err, errSimDeadLetter) {
				return reply, err
			}
			last = err
		}
		t := time.NewTimer(pause + jitter)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("request %q: %w: %w: %w", id, grain.ErrNoOwner, ctx.Err(), last)
		case <-h.gone:
			t.Stop()
			return nil, fmt.Errorf("request %q: %w: %w", id, grain.ErrNoOwner, errSimStopped)
		}
	}
}

// ask sends a request to a member and waits for its reply.
func (h *simHost) ask(ctx context.Context, peer *simHost, id string, m proto.Message, c chaos.Course) (proto.Message, error) {
	unknown := fmt.Errorf("request %q to %s: %w", id, peer.site.Member, grain.ErrOutcomeUnknown)
	if !h.travel(ctx, peer, c.There) {
		return nil, unknown
	}
	pid, err := peer.activate(id)
	if err != nil {
		return nil, err
	}
	k := &simCall{reply: make(chan any, 1)}
	self, _ := peer.system.ProcessRegistry.Add(k, peer.system.ProcessRegistry.NextID())
	defer peer.system.ProcessRegistry.Remove(self)
	if peer != h {
		m = proto.Clone(m) // It is encoded in transit.
	}
	peer.system.Root.RequestWithCustomSender(pid, m, self)
	var reply any
	select {
	case reply = <-k.reply:
	case <-ctx.Done():
	case <-peer.gone:
	case <-h.gone:
	}
	late := c.Back
	if peer != h && c.Lost { // The loss shows at the caller's timeout, or a while later.
		late = 3 * time.Second
	}
	if !h.travel(ctx, peer, late) {
		if peer.isGone() && !h.isGone() {
			h.travel(ctx, h, c.Back) // Callers of the same peer notice one by one.
		}
		return nil, unknown
	}
	switch reply := reply.(type) {
	case *actor.DeadLetterResponse:
		return nil, errSimDeadLetter
	case *cluster.GrainErrorResponse:
		return nil, grain.ErrPanicked
	case proto.Message:
		if peer == h || !c.Lost {
			return reply, nil
		}
	}
	return nil, unknown
}

// travel delays a message between two hosts. It reports false when the sender's context ends or one of
// the hosts stops; then the message is lost.
func (h *simHost) travel(ctx context.Context, peer *simHost, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-peer.gone:
	case <-h.gone:
	}
	return ctx.Err() == nil && !peer.isGone() && !h.isGone()
}

func (h *simHost) isGone() bool {
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

// activate returns the activation of an identity. One that is about to end keeps its place until then.
func (h *simHost) activate(id string) (*actor.PID, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.running {
		return nil, errSimDeadLetter
	}
	if s := h.slots[id]; s != nil {
		return s.pid, nil
	}
	s := &simSlot{ended: make(chan struct{})}
	props := actor.PropsFromProducer(func() actor.Actor {
		return &simActor{host: h, id: id, slot: s, actor: grain.Actors(func() grain.Grain { return newActivation(h.rt) })()}
	}, actor.WithMailbox(simMailboxes(h.system)))
	s.pid = h.system.Root.SpawnPrefix(props, id)
	h.slots[id] = s
	h.system.Root.Send(s.pid, &cluster.ClusterInit{Identity: cluster.NewClusterIdentity(id, kind)})
	return s.pid, nil
}

// simActor contains the panics of an activation and observes its end.
type simActor struct {
	host  *simHost
	id    string
	slot  *simSlot
	actor actor.Actor
}

func (a *simActor) Receive(ctx actor.Context) {
	defer func() {
		if reason := recover(); reason != nil {
			a.host.site.Panicked(reason, debug.Stack())
			if ctx.Sender() != nil {
				ctx.Send(ctx.Sender(), &cluster.GrainErrorResponse{Reason: "panicked"})
			}
			ctx.Stop(ctx.Self())
		}
	}()
	if _, ok := ctx.Message().(*actor.Stopped); ok {
		a.host.mu.Lock()
		delete(a.host.slots, a.id)
		a.host.mu.Unlock()
		close(a.slot.ended)
	}
	a.actor.Receive(ctx)
}

// simCall is the address of a reply. The first reply counts.
type simCall struct{ reply chan any }

func (c *simCall) SendUserMessage(_ *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	select {
	case c.reply <- m:
	default:
	}
}

func (c *simCall) SendSystemMessage(*actor.PID, any) {}

func (c *simCall) Stop(*actor.PID) {}

// simMailboxes creates mailboxes that return their remaining messages when their actor stops, like
// those of package grain.
func simMailboxes(system *actor.ActorSystem) actor.MailboxProducer {
	inner := actor.Unbounded()
	return func() actor.Mailbox { return &simMailbox{Mailbox: inner(), system: system} }
}

type simMailbox struct {
	actor.Mailbox
	system *actor.ActorSystem
}

func (m *simMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(&simInvoker{MessageInvoker: invoker, system: m.system}, dispatcher)
}

type simInvoker struct {
	actor.MessageInvoker
	system  *actor.ActorSystem
	stopped bool
}

func (i *simInvoker) InvokeSystemMessage(m any) {
	if _, ok := m.(*actor.Stop); ok {
		i.stopped = true
	}
	i.MessageInvoker.InvokeSystemMessage(m)
}

func (i *simInvoker) InvokeUserMessage(m any) {
	if !i.stopped {
		i.MessageInvoker.InvokeUserMessage(m)
		return
	}
	_, body, sender := actor.UnwrapEnvelope(m)
	i.system.EventStream.Publish(&actor.DeadLetterEvent{Message: body, Sender: sender})
}
