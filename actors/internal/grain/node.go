package grain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/proto"

	"github.com/parleyrun/parley/actors/internal/wire"
)

// nodeName is the well-known name of every member's node actor. It is part of the wire protocol.
const nodeName = "node"

type nodeActor struct {
	log    *slog.Logger
	handle func(proto.Message) proto.Message // nil ignores messages
}

// Receive implements actor.Actor. A panic ends the handling of one message, not the actor.
func (n *nodeActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
	case *wire.Ping:
		if ctx.Sender() != nil {
			ctx.Send(ctx.Sender(), &wire.Pong{})
		}
	case proto.Message:
		n.serve(ctx, m)
	}
}

func (n *nodeActor) serve(ctx actor.Context, m proto.Message) {
	if n.handle == nil {
		if ctx.Sender() != nil {
			ctx.Send(ctx.Sender(), &actor.DeadLetterResponse{Target: ctx.Self()})
		}
		return
	}
	defer func() {
		if r := recover(); r != nil {
			n.log.Error("node message handler panicked", "type", fmt.Sprintf("%T", m),
				"panic", panicText(r), "stack", string(debug.Stack()))
			if ctx.Sender() != nil {
				ctx.Send(ctx.Sender(), &cluster.GrainErrorResponse{Reason: reasonPanicked})
			}
		}
	}()
	if reply := n.handle(m); reply != nil && ctx.Sender() != nil {
		ctx.Respond(reply)
	}
}

// spawnNode creates the node actor. The system is fresh, so a taken name is a broken invariant.
func (c *Cluster) spawnNode() {
	pid, err := c.system.Root.SpawnNamed(actor.PropsFromProducer(func() actor.Actor {
		return &nodeActor{log: c.log, handle: c.onNode}
	}), nodeName)
	if err != nil {
		panic(fmt.Errorf("spawn node actor: %w", err))
	}
	c.node = pid
}

// AskNode sends m to the member at address itself and returns the response of its Options.Node. It
// makes one attempt and waits until ctx's deadline, or for RequestTimeout if ctx has none. Its errors
// are those of Request: ErrNoOwner means that the member has not seen m.
func (c *Cluster) AskNode(ctx context.Context, address string, m proto.Message) (proto.Message, error) {
	if m == nil {
		return nil, errors.New("ask node: message is missing")
	}
	if !c.running.Load() {
		return nil, fmt.Errorf("ask node %s: %w: %w", address, ErrNoOwner, errStopped)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ask node %s: %w: %w", address, ErrNoOwner, err)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	reply, err := c.calls.ask(ctx, actor.NewPID(address, nodeName), m)
	switch {
	case err == nil:
		reply, err = checkReply(reply)
	case unseen(err):
		err = fmt.Errorf("%w: %w", ErrNoOwner, err)
	default:
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask node %s: %w", address, err)
	}
	p, ok := reply.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("ask node %s: reply of type %T is no protobuf message", address, reply)
	}
	return p, nil
}

// SendNode sends m to the member at address itself, at most once and without a confirmation. It does
// not block. It drops m if the address is not in the view.
func (c *Cluster) SendNode(address string, m proto.Message) {
	if m != nil && c.running.Load() && c.lookup.isUp(address) {
		c.system.Root.Send(actor.NewPID(address, nodeName), m)
	}
}

// Address returns this member's advertised address, or "" before it listens. The library sets its own
// copy without a lock, while health checks and metrics may already read it.
func (c *Cluster) Address() string {
	if a := c.address.Load(); a != nil {
		return *a
	}
	return ""
}

// View returns the current view.
func (c *Cluster) View() View { return c.lookup.view.Load().View }

// Owner returns the address of the member that owns id in the current view, or "", and whether it is
// this member.
func (c *Cluster) Owner(id string) (address string, self bool) {
	address = c.lookup.view.Load().owner(id)
	return address, address != "" && address == c.system.Address()
}
