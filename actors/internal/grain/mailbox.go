package grain

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// bouncing returns a producer of mailboxes that return their queued messages when their actor stops.
// The library's mailbox drops them, and the callers would wait until their deadline.
func bouncing(log *slog.Logger) actor.MailboxProducer {
	inner := actor.Unbounded()
	return func() actor.Mailbox { return &bounceMailbox{Mailbox: inner(), log: log} }
}

type bounceMailbox struct {
	actor.Mailbox
	log *slog.Logger
}

// RegisterHandlers implements actor.Mailbox. The library's invoker is the actor's context.
func (m *bounceMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	ctx := invoker.(actor.Context)
	m.Mailbox.RegisterHandlers(&bounceInvoker{MessageInvoker: invoker, ctx: ctx, log: m.log}, dispatcher)
}

// bounceInvoker is used by one goroutine at a time, that of the mailbox.
type bounceInvoker struct {
	actor.MessageInvoker
	ctx     actor.Context
	log     *slog.Logger
	stopped bool // Invariant: once set, no user message reaches the actor
}

// InvokeSystemMessage implements actor.MessageInvoker. After Stopping, no queued message may reach the
// actor, even while it waits for its children.
func (b *bounceInvoker) InvokeSystemMessage(m any) {
	if _, ok := m.(*actor.Stop); ok {
		b.stopped = true
	}
	b.MessageInvoker.InvokeSystemMessage(m)
}

// InvokeUserMessage implements actor.MessageInvoker. The dead letter's event answers the sender.
func (b *bounceInvoker) InvokeUserMessage(m any) {
	if !b.stopped {
		b.MessageInvoker.InvokeUserMessage(m)
		return
	}
	_, body, sender := actor.UnwrapEnvelope(m)
	b.ctx.ActorSystem().EventStream.Publish(&actor.DeadLetterEvent{PID: b.ctx.Self(), Message: body, Sender: sender})
}

// EscalateFailure implements actor.MessageInvoker for a panic outside of the guard, such as in a
// continuation. The library would suspend the mailbox, and its queue would never bounce.
func (b *bounceInvoker) EscalateFailure(reason, m any) {
	_, body, sender := actor.UnwrapEnvelope(m)
	panicked(b.log, b.ctx.ActorSystem(), b.ctx.Self(), sender, body, reason)
}
