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

// Live emits events of work outside the actor's goroutine: a model call or a tool. It is safe for
// concurrent use.
type Live struct {
	// Content controls which content is included.
	Content observability.ProjectOptions
	// Prompts does the same for prompts.
	Prompts observability.ProjectOptions

	fanout *Fanout
	key    conversation.Key
	src    observability.Source
	place  observability.Place
}

// Wanted reports whether live events are enabled.
func (l *Live) Wanted() bool { return l.fanout.wantsLive() }

// Emit emits an event.
func (l *Live) Emit(p observability.Payload) {
	if l.Wanted() {
		l.fanout.emit(l.key, l.src.Live(conversation.TimeOf(time.Now()), l.place, p))
	}
}

// Log emits a log event.
func (l *Live) Log(level slog.Level, message string, attributes map[string]any) {
	l.Emit(&observability.Log{Level: levelName(level), Message: message, Attributes: attributes})
}

// Author returns a context in which an author's log lines become events with the given attributes.
func (l *Live) Author(ctx context.Context, about map[string]any) context.Context {
	return agenthost.WithLog(ctx, func(level slog.Level, message string, attributes map[string]any) {
		maps.Copy(attributes, about)
		l.Log(level, message, attributes)
	})
}

// levelName maps a level to one of the three levels of events.
func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	}
	return "info"
}
