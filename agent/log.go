package agent

import (
	"context"
	"log/slog"

	"github.com/parleyrun/parley/agent/internal/seam"
)

// Limits of one [Log] call, in bytes: of its message, and of all its attributes.
const (
	MaxLogMessage    = 8 << 10
	MaxLogAttributes = 8 << 10
)

// Log emits an observability event of type "log" about the call or hook that ctx belongs to, best
// effort. Its message and attributes are emitted unredacted, whether or not the agent's events include
// content. Levels are mapped to error, warn or, for all below, info.
//
// Args are keys and values as those of [slog.Logger.Log]; a group becomes an object, an error its
// text, a duration "1.5s". Values are copied before Log returns; a value without a JSON form is
// replaced by the name of its type. A message longer than [MaxLogMessage] is cut, and attributes
// beyond [MaxLogAttributes] are omitted, with the attribute "truncated" in their place.
//
// Outside of a runtime Log does nothing. It may be called from any goroutine.
func Log(ctx context.Context, level slog.Level, message string, args ...any) {
	f, ok := ctx.Value(seam.Log{}).(func(level slog.Level, message string, attributes map[string]any))
	if !ok {
		return
	}
	// slog.Record parses args like a logger, including odd ones.
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
