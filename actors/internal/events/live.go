package events

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/parleyrun/parley/agent/agenthost"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// Live tells of work outside the actor: a model call, a tool. It is safe for concurrent
// use.
type Live struct {
	// Content says what of it may be shown.
	Content observability.ProjectOptions
	// Prompts says the same of what models are sent.
	Prompts observability.ProjectOptions

	fanout *Fanout
	key    conversation.Key
	src    observability.Source
	place  observability.Place
}

// Wanted reports whether anybody wants to know.
func (l *Live) Wanted() bool { return l.fanout.wantsLive() }

// Emit tells something.
func (l *Live) Emit(p observability.Payload) {
	if l.Wanted() {
		l.fanout.emit(l.key, l.src.Live(conversation.TimeOf(time.Now()), l.place, p))
	}
}

// Log tells people something.
func (l *Live) Log(level slog.Level, message string, attributes map[string]any) {
	l.Emit(&observability.Log{Level: levelName(level), Message: message, Attributes: attributes})
}

// Author returns a context in which what an author logs is told, with what it is about.
func (l *Live) Author(ctx context.Context, about map[string]any) context.Context {
	return agenthost.WithLog(ctx, func(level slog.Level, message string, attributes map[string]any) {
		maps.Copy(attributes, about)
		l.Log(level, message, attributes)
	})
}

// levelName is one of the three levels that events have.
func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	}
	return "info"
}
