package grain

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// libraryLog is the slog.Handler for protoactor-go. The library logs whole messages as attributes and
// every connection at info. The handler passes warnings and errors only, and only attributes that
// cannot contain a body.
type libraryLog struct {
	next slog.Handler
}

func newLibraryLog(log *slog.Logger) *slog.Logger {
	return slog.New(libraryLog{next: log.Handler()}).With("component", "protoactor")
}

// Enabled implements slog.Handler.
func (h libraryLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.next.Enabled(ctx, level)
}

// reported reports whether a library warning about links or frames is already logged by serverCreds or
// links: once, with the peer's address, and without error text that may quote a frame.
func reported(message string) bool {
	switch message {
	case "EndpointReader failed to deserialize", "EndpointReader failed to handle message batch",
		"EndpointReader failed to handle connect request", "EndpointReader received message with unknown target",
		"EndpointReader received unknown connection type", "EndpointReader received unknown message type",
		"EndpointReader failed to get local process", "EndpointReader failed to send ConnectResponse message",
		"EndpointWriter lost connection", "EndpointWatcher receive message for already terminated endpoint",
		"ClientConnection not implemented":
		return true
	}
	return false
}

// Handle implements slog.Handler.
func (h libraryLog) Handle(ctx context.Context, r slog.Record) error {
	if reported(r.Message) {
		return nil
	}
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(redact(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (h libraryLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = redact(a)
	}
	return libraryLog{next: h.next.WithAttrs(clean)}
}

// WithGroup implements slog.Handler.
func (h libraryLog) WithGroup(name string) slog.Handler {
	return libraryLog{next: h.next.WithGroup(name)}
}

// redact keeps scalars, PIDs and errors, and reduces other values to their type. A panic value has the
// key reason or exception and may be an error that quotes a body.
func redact(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindAny:
	case slog.KindGroup:
		group := make([]any, 0, len(v.Group()))
		for _, g := range v.Group() {
			group = append(group, redact(g))
		}
		return slog.Group(a.Key, group...)
	default:
		return slog.Attr{Key: a.Key, Value: v}
	}
	switch x := v.Any().(type) {
	case *actor.PID:
		return slog.String(a.Key, x.GetAddress()+"/"+x.GetId())
	case error:
		if a.Key != "reason" && a.Key != "exception" {
			return slog.String("err", x.Error())
		}
	}
	return slog.String(a.Key, fmt.Sprintf("redacted %T", v.Any()))
}

// watchDeadLetters logs each undeliverable message with target and type. Most are requests that arrive
// at the end of an activation and are retried, hence debug.
func watchDeadLetters(system *actor.ActorSystem, log *slog.Logger) {
	system.EventStream.Subscribe(func(evt any) {
		d, ok := evt.(*actor.DeadLetterEvent)
		if !ok || !log.Enabled(context.Background(), slog.LevelDebug) {
			return
		}
		log.Debug("dead letter", "actor", d.PID.GetId(), "type", fmt.Sprintf("%T", d.Message), "answered", d.Sender != nil)
	})
}
