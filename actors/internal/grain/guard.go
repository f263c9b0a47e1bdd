package grain

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
)

// Passivate ends the activation that calls it from its Receive. Nothing that is queued or on its way
// is lost: queued requests go back to their callers, and a request for the same identity that arrives
// before the end waits for it and then gets a new activation.
//
// The actor still receives *actor.Stopping and *actor.Stopped, and no user message after Passivate.
func Passivate(ctx actor.Context) {
	if parent := ctx.Parent(); parent != nil {
		ctx.Send(parent, leaving{pid: ctx.Self()})
	}
	ctx.Stop(ctx.Self())
}

// guard contains the panics of an actor. It lies outside the library's own middleware and inside its
// life cycle, so a panic in Stopping or Stopped does not keep the actor from ending.
func guard(log *slog.Logger) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			defer func() {
				if r := recover(); r != nil {
					panicked(log, ctx.ActorSystem(), ctx.Self(), env.Sender, env.Message, r)
				}
			}()
			next(ctx, env)
		}
	}
}

// panicked logs the panic without its content, answers who asked, and stops the actor for good: its
// state can no longer be trusted.
func panicked(log *slog.Logger, system *actor.ActorSystem, self, sender *actor.PID, message, reason any) {
	log.Error("actor panicked", "actor", self.GetId(), "type", fmt.Sprintf("%T", message),
		"panic", panicText(reason), "stack", string(debug.Stack()))
	if sender != nil {
		system.Root.Send(sender, &cluster.GrainErrorResponse{Reason: reasonPanicked})
	}
	system.Root.Stop(self)
}

// panicText describes a panic value. The text of anything but the runtime's own errors may hold what
// a user wrote, so only its type is told.
func panicText(reason any) string {
	if err, ok := reason.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("value of type %T", reason)
}
