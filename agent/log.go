package agent

import (
	"context"
	"log/slog"
)

// LogFunc takes what an author logs. It does not wait for anybody.
type LogFunc func(level slog.Level, message string, attributes map[string]any)

type logKey struct{}

// WithLog returns a context whose author logs go to f. A runtime calls it.
func WithLog(ctx context.Context, f LogFunc) context.Context {
	return context.WithValue(ctx, logKey{}, f)
}

// Log tells whoever observes the conversation something about the call or hook that ctx
// belongs to: an observability event of type "log", best effort. Args are keys and
// values as those of [slog.Logger.Log]. Outside of a runtime it does nothing. It may be
// called from any goroutine.
func Log(ctx context.Context, level slog.Level, message string, args ...any) {
	f, ok := ctx.Value(logKey{}).(LogFunc)
	if !ok {
		return
	}
	attributes := map[string]any{}
	// A record reads arguments as a logger does, also odd ones.
	r := slog.Record{}
	r.Add(args...)
	r.Attrs(func(a slog.Attr) bool {
		attributes[a.Key] = a.Value.Resolve().Any()
		return true
	})
	f(level, message, attributes)
}
