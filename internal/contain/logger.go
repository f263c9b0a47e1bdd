package contain

import (
	"context"
	"log/slog"
)

// Logger returns a logger whose handler, which may be an author's, runs contained. A record that the
// handler fails to handle is lost.
func Logger(l *slog.Logger) *slog.Logger {
	h := l.Handler()
	switch h.(type) {
	case *handler:
		return l
	}
	if h == slog.DiscardHandler {
		return l
	}
	return slog.New(&handler{h})
}

type handler struct{ next slog.Handler }

// Enabled implements [slog.Handler].
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	on, err := Do("log handler", func() (bool, error) { return h.next.Enabled(ctx, level), nil })
	return on && err == nil
}

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	return Run("log handler", func() error { return h.next.Handle(ctx, r) })
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.derived(func() slog.Handler { return h.next.WithAttrs(attrs) })
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	return h.derived(func() slog.Handler { return h.next.WithGroup(name) })
}

// derived returns h itself if make returns no handler.
func (h *handler) derived(make func() slog.Handler) slog.Handler {
	next, err := Do("log handler", func() (slog.Handler, error) { return make(), nil })
	if err != nil || next == nil {
		return h
	}
	return &handler{next}
}
