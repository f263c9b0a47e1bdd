package http

import (
	"context"
	"log/slog"
)

// onlyRefs forwards only records with a ref that was sent to a client. Refs must be logged even
// without a Logger.
type onlyRefs struct{ next slog.Handler }

var _ slog.Handler = onlyRefs{}

// Enabled implements slog.Handler.
func (h onlyRefs) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h onlyRefs) Handle(ctx context.Context, r slog.Record) error {
	has := false
	r.Attrs(func(a slog.Attr) bool {
		has = a.Key == "ref"
		return !has
	})
	if !has {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h onlyRefs) WithAttrs(attrs []slog.Attr) slog.Handler { return onlyRefs{h.next.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h onlyRefs) WithGroup(name string) slog.Handler { return onlyRefs{h.next.WithGroup(name)} }
