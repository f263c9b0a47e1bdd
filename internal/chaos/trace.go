package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// trace collects what happens, to be told if a schedule fails.
type trace struct {
	began time.Time

	mu     sync.Mutex
	events []event
	broken []string
}

type event struct {
	at     time.Duration
	who    string
	format string
	args   []any
}

func newTrace() *trace { return &trace{began: time.Now()} }

// add records an event. The arguments are formatted later: they must not change.
func (t *trace) add(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, event{time.Since(t.began), who, format, args})
}

// violate records that a promise was broken.
func (t *trace) violate(who, format string, args ...any) {
	t.add(who, "VIOLATION: "+format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = append(t.broken, fmt.Sprintf(format, args...))
}

// violation returns the first one, "" if there was none.
func (t *trace) violation() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.broken) == 0 {
		return ""
	}
	return t.broken[0]
}

// lines tells what happened. What one event has set going in several goroutines of
// a node happens at the same nanosecond and in no order: it is told in the order of
// its words.
func (t *trace) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]string, 0, len(t.events))
	for _, e := range t.events {
		out = append(out, fmt.Sprintf("%14.9fs %-6s %s", e.at.Seconds(), e.who, fmt.Sprintf(e.format, e.args...)))
	}
	slices.Sort(out)
	return out
}

// logger returns a logger whose records become events while silent reports false.
func (t *trace) logger(who string, silent func() bool) *slog.Logger {
	return slog.New(&handler{trace: t, who: who, silent: silent})
}

type handler struct {
	trace  *trace
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
	h.trace.add(h.who, "log: %s %v", r.Message, attrList(attrs))
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
