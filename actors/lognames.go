package actors

import (
	"context"
	"log/slog"

	"github.com/parleyrun/parley/actors/internal/events"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/outage"
)

// withNames returns a logger that adds the attributes agent and id to records that have the attribute conversation and
// lack the other two.
func withNames(l *slog.Logger, known *events.Addresses) *slog.Logger {
	return outage.Wrap(l, func(next slog.Handler) slog.Handler { return &namingHandler{next: next, known: known} })
}

type namingHandler struct {
	next  slog.Handler
	known *events.Addresses
	seen  seenAttrs // Of WithAttrs.
}

// seenAttrs are the attributes of a record that matter here.
type seenAttrs struct {
	key     conversation.Key
	grouped bool // Further attributes are inside a group.
	named   bool // The attribute agent or id is there.
}

func (s *seenAttrs) see(a slog.Attr) {
	switch a.Key {
	case "conversation":
		if a.Value.Kind() == slog.KindString {
			s.key = conversation.Key(a.Value.String())
		}
	case "agent", "id":
		s.named = true
	}
}

// Enabled implements [slog.Handler].
func (h *namingHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *namingHandler) Handle(ctx context.Context, r slog.Record) error {
	s := h.seen
	r.Attrs(func(a slog.Attr) bool { s.see(a); return true })
	if at, ok := h.known.Get(s.key); ok && !s.named && !s.grouped {
		r = r.Clone()
		r.AddAttrs(slog.String("agent", at.Agent), slog.String("id", at.ID))
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *namingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := &namingHandler{h.next.WithAttrs(attrs), h.known, h.seen}
	if !h.seen.grouped {
		for _, a := range attrs {
			out.seen.see(a)
		}
	}
	return out
}

// WithGroup implements [slog.Handler].
func (h *namingHandler) WithGroup(name string) slog.Handler {
	out := &namingHandler{h.next.WithGroup(name), h.known, h.seen}
	out.seen.grouped = out.seen.grouped || name != ""
	return out
}
