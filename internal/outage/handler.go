package outage

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Handler is a handler of logs that suppresses the records of an outage. Until [Watch] gives it one, it forwards all.
type Handler struct {
	next  slog.Handler
	watch *atomic.Pointer[watched] // Shared by all handlers that are derived from one.
}

// watched is an outage, and the match of its errors.
type watched struct {
	*Outage
	match func(error) bool
}

// NewHandler returns a Handler that forwards to next.
func NewHandler(next slog.Handler) *Handler { return &Handler{next, new(atomic.Pointer[watched])} }

// Filters reports whether a logger has a Handler.
func Filters(l *slog.Logger) bool {
	_, ok := l.Handler().(*Handler)
	return ok
}

// Wrap returns a logger whose records go through a further handler, which is placed behind the Handler of l if l has one.
func Wrap(l *slog.Logger, wrap func(slog.Handler) slog.Handler) *slog.Logger {
	if h, ok := l.Handler().(*Handler); ok {
		return slog.New(&Handler{wrap(h.next), h.watch})
	}
	return slog.New(wrap(l.Handler()))
}

// Unfiltered returns a logger without its Handler, for records that must not be suppressed, such as one of an error that
// ends the process.
func Unfiltered(l *slog.Logger) *slog.Logger {
	if h, ok := l.Handler().(*Handler); ok {
		return slog.New(h.next)
	}
	return l
}

// Watch makes the Handler of a logger suppress records with an attribute whose error matches, during
// the returned Outage. A record with the attribute ref is never suppressed, because the ref was sent
// to a client, to quote it. For a logger without a Handler nothing is suppressed.
func Watch(l *slog.Logger, lines Lines, settle time.Duration, match func(error) bool) *Outage {
	out := New(l, lines, settle)
	if h, ok := l.Handler().(*Handler); ok {
		h.watch.Store(&watched{out, match})
	}
	return out
}

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler]. The first record of an outage is logged with the message Began;
// its own message becomes the attribute operation.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	w := h.watch.Load()
	if w == nil {
		return h.next.Handle(ctx, r)
	}
	err := w.errorIn(r)
	if err == nil {
		return h.next.Handle(ctx, r)
	}
	switch s := w.record(); s.is {
	case none:
		return h.next.Handle(ctx, r)
	case begins:
		first := slog.NewRecord(r.Time, max(r.Level, slog.LevelWarn), w.lines.Began, r.PC)
		first.AddAttrs(slog.String("operation", r.Message))
		r.Attrs(func(a slog.Attr) bool { first.AddAttrs(a); return true })
		return h.next.Handle(ctx, first)
	case continues:
		w.remind(s, err, "operation", r.Message)
	}
	return nil
}

// errorIn returns the matching error of a record, or nil.
func (w *watched) errorIn(r slog.Record) (found error) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "ref" {
			found = nil
			return false
		}
		if err, ok := a.Value.Any().(error); ok && found == nil && w.match(err) {
			found = err
		}
		return true
	})
	return found
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.next.WithAttrs(attrs), h.watch}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.next.WithGroup(name), h.watch}
}
