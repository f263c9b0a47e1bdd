package grain

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/proto"
)

// Grain is what an identity is while it is activated, for code that does not know the
// library. Its methods are called one at a time.
type Grain interface {
	// Start is called once, before anything else.
	Start(self *Self)
	// Receive takes a message. It must not block. It returns true to passivate: then nothing
	// more comes but Stop, queued requests go back to their callers, and who comes later gets
	// a new activation.
	Receive(m any, from Sender) (passivate bool)
	// Stop is called once, at the end, whatever has brought it about.
	Stop()
}

// Self is an activation as it knows itself. Its methods may be called from any goroutine.
type Self struct {
	id   string
	root *actor.RootContext
	pid  *actor.PID
}

// ID is the identity.
func (s *Self) ID() string { return s.id }

// Send sends a message to the activation. One that has ended gets it no more.
func (s *Self) Send(m any) { s.root.Send(s.pid, m) }

// Forward is Send, of a message that from waits for the answer to. It goes back to them if
// the activation has ended.
func (s *Self) Forward(m any, from Sender) { s.root.RequestWithCustomSender(s.pid, m, from.pid) }

// Sender is who has sent a message. The zero value is nobody.
type Sender struct {
	root *actor.RootContext
	pid  *actor.PID
}

// Answer sends an answer, from any goroutine. The first counts.
func (s Sender) Answer(m proto.Message) {
	if s.pid != nil {
		s.root.Send(s.pid, m)
	}
}

// Actors makes actors of grains, for New.
func Actors(newGrain func() Grain) func() actor.Actor {
	return func() actor.Actor { return &grainActor{grain: newGrain()} }
}

// grainActor is a grain as the library knows it.
type grainActor struct {
	grain Grain
	self  *Self // nil until it is started
}

// Receive implements actor.Actor.
func (a *grainActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *cluster.ClusterInit:
		a.self = &Self{id: m.Identity.GetIdentity(), root: ctx.ActorSystem().Root, pid: ctx.Self()}
		a.grain.Start(a.self)
	case *actor.Stopping:
		if a.self != nil {
			a.grain.Stop()
		}
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		if a.grain.Receive(m, Sender{ctx.ActorSystem().Root, ctx.Sender()}) {
			Passivate(ctx)
		}
	}
}
