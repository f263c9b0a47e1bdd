package chaos

import (
	"context"
	"log/slog"
	"strings"

	"github.com/parleyrun/parley/internal/schedule"
)

// newLogger returns a logger whose records become events while silent reports false.
func newLogger(t *schedule.Trace, who string, silent func() bool) *slog.Logger {
	return slog.New(&handler{trace: t, who: who, silent: silent})
}

type handler struct {
	trace  *schedule.Trace
	who    string
	silent func() bool
	attrs  []slog.Attr
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	if h.silent() {
		return nil
	}
	attrs := append([]slog.Attr(nil), h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	h.trace.Add(h.who, "log: %s %v", r.Message, attrList(attrs))
	return nil
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.trace, h.who, h.silent, append(append([]slog.Attr(nil), h.attrs...), attrs...)}
}

// WithGroup implements slog.Handler. Groups are not shown.
func (h *handler) WithGroup(string) slog.Handler { return h }

type attrList []slog.Attr

func (l attrList) String() string {
	var s strings.Builder
	for i, a := range l {
		if i > 0 {
			s.WriteByte(' ')
		}
		line, _, _ := strings.Cut(a.String(), "\n") // stacks differ from run to run
		s.WriteString(line)
	}
	return s.String()
}
