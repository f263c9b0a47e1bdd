package grain

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/proto"
)

// Grain is an activated identity, for code that does not depend on the library. Its methods are called
// one at a time.
type Grain interface {
	// Start is called once, before the other methods.
	Start(self *Self)
	// Receive handles a message. It must not block. It returns true to passivate: then only Stop
	// follows, queued requests return to their callers, and later requests get a new activation.
	Receive(m any, from Sender) (passivate bool)
	// Stop is called once, as the last method.
	Stop()
}

// Self is the handle of an activation on itself. Its methods may be called from any goroutine.
type Self struct {
	id   string
	root *actor.RootContext
	pid  *actor.PID
}

// ID returns the identity.
func (s *Self) ID() string { return s.id }

// Send sends a message to the activation. It is dropped if the activation has ended.
func (s *Self) Send(m any) { s.root.Send(s.pid, m) }

// Forward sends a request of another sender to the activation, like Send. The request returns to from
// if the activation has ended.
func (s *Self) Forward(m any, from Sender) { s.root.RequestWithCustomSender(s.pid, m, from.pid) }

// Sender is the sender of a message. The zero value ignores answers.
type Sender struct {
	root *actor.RootContext
	pid  *actor.PID
}

// Answer sends an answer, from any goroutine. The first answer counts.
func (s Sender) Answer(m proto.Message) {
	if s.pid != nil {
		s.root.Send(s.pid, m)
	}
}

// Actors adapts a factory of grains for New.
func Actors(newGrain func() Grain) func() actor.Actor {
	return func() actor.Actor { return &grainActor{grain: newGrain()} }
}

// grainActor adapts a Grain to the library.
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
