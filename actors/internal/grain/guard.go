package grain

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
)

// Passivate ends the activation that calls it from its Receive. It loses no message: queued requests
// return to their callers, and a request that arrives before the end waits for it and then gets a new
// activation.
//
// The actor still receives *actor.Stopping and *actor.Stopped, but no user message after Passivate.
func Passivate(ctx actor.Context) {
	if parent := ctx.Parent(); parent != nil {
		ctx.Send(parent, leaving{pid: ctx.Self()})
	}
	ctx.Stop(ctx.Self())
}

// guard contains the panics of an actor. It is outside the library's middleware and inside its life
// cycle. So the actor ends even after a panic in Stopping or Stopped.
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

// panicked logs the panic without its content, answers the sender and stops the actor permanently,
// because its state cannot be trusted.
func panicked(log *slog.Logger, system *actor.ActorSystem, self, sender *actor.PID, message, reason any) {
	log.Error("actor panicked", "actor", self.GetId(), "type", fmt.Sprintf("%T", message),
		"panic", panicText(reason), "stack", string(debug.Stack()))
	if sender != nil {
		system.Root.Send(sender, &cluster.GrainErrorResponse{Reason: reasonPanicked})
	}
	system.Root.Stop(self)
}

// panicText describes a panic value. Only runtime errors are logged with their text. Of other values
// only the type is logged, because the text may contain user data.
func panicText(reason any) string {
	if err, ok := reason.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("value of type %T", reason)
}
