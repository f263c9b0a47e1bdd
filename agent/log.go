package agent

import (
	"context"
	"log/slog"

	"github.com/parleyrun/parley/agent/internal/seam"
)

// Bounds of what one [Log] tells, in bytes: of its message, and of all its attributes.
const (
	MaxLogMessage    = 8 << 10
	MaxLogAttributes = 8 << 10
)

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
	f, ok := ctx.Value(seam.Log{}).(func(level slog.Level, message string, attributes map[string]any))
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
