package agent

import (
	"context"
	"log/slog"
)

// Bounds of what one [Log] tells, in bytes: of its message, and of all its attributes.
const (
	MaxLogMessage    = 8 << 10
	MaxLogAttributes = 8 << 10
)

// LogFunc takes what an author logs. Attributes hold what JSON can tell, and nothing
// that the author still has: nil, bool, int64, uint64, float64, string, []any and
// map[string]any. It does not wait for anybody.
type LogFunc func(level slog.Level, message string, attributes map[string]any)

type logKey struct{}

// WithLog returns a context whose author logs go to f. A runtime calls it.
func WithLog(ctx context.Context, f LogFunc) context.Context {
	return context.WithValue(ctx, logKey{}, f)
}

// Log tells whoever observes the conversation something about the call or hook that ctx
// belongs to: an observability event of type "log", best effort. What it says is shown
// as it is, whether or not events of the agent show content. Levels are seen as error,
// warn or, all below, info.
//
// Args are keys and values as those of [slog.Logger.Log]; a group is an object, an error
// its text, a duration as "1.5s". A value is copied before Log returns, so that it may be
// changed afterwards; one that has no JSON form is named by its type. What exceeds
// [MaxLogMessage] is cut, and of the attributes what exceeds [MaxLogAttributes] is left
// out, with the attribute "truncated" in its place.
//
// Outside of a runtime it does nothing. It may be called from any goroutine.
func Log(ctx context.Context, level slog.Level, message string, args ...any) {
	f, ok := ctx.Value(logKey{}).(LogFunc)
	if !ok {
		return
	}
	// A record reads arguments as a logger does, also odd ones.
	r := slog.Record{}
	r.Add(args...)
	p := plainer{left: MaxLogAttributes}
	attributes := map[string]any{}
	seen := 0
	r.Attrs(func(a slog.Attr) bool {
		seen++
		more := p.add(attributes, a, 0)
		p.cut = p.cut || !more && seen < r.NumAttrs()
		return more
	})
	if p.cut {
		attributes["truncated"] = true
	}
	f(level, cutText(message, MaxLogMessage), attributes)
}
