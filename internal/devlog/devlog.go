// Package devlog writes log lines for developers: attributes of several lines, such as the stack of a
// panic, follow their line unchanged.
//
// The development server and package agenttest use it. A Handler is safe for concurrent use if no two
// of them write to the same destination; one record is one Write.
package devlog

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Handler is a [slog.TextHandler] except for attributes of several lines.
type Handler struct {
	text slog.Handler // writes to out.line
	out  *output
}

type output struct {
	mu   sync.Mutex
	w    io.Writer
	line bytes.Buffer
}

// New returns a handler for records of at least level.
func New(w io.Writer, level slog.Leveler) *Handler {
	out := &output{w: w}
	return &Handler{slog.NewTextHandler(&out.line, &slog.HandlerOptions{Level: level, ReplaceAttr: Seconds}), out}
}

// Seconds writes a duration as text in seconds, such as 1.5s or 0.0002s. It is the ReplaceAttr of every handler: that of
// JSON would write nanoseconds without a unit, and that of text several units.
func Seconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(strconv.FormatFloat(a.Value.Duration().Seconds(), 'f', -1, 64) + "s")
	}
	return a
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.text.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	short, below := slog.NewRecord(r.Time, r.Level, r.Message, r.PC), ""
	r.Attrs(func(a slog.Attr) bool {
		if text, ok := textOf(a.Value.Resolve()); ok && strings.Contains(text, "\n") {
			below += "  " + a.Key + ": " + strings.ReplaceAll(strings.TrimSpace(shorter(text)), "\n", "\n  ") + "\n"
		} else {
			short.AddAttrs(a)
		}
		return true
	})
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.line.Reset()
	if err := h.text.Handle(ctx, short); err != nil {
		return err
	}
	h.out.line.WriteString(below)
	_, err := h.out.w.Write(h.out.line.Bytes())
	return err
}

// textOf returns the text of a value that is logged as text.
func textOf(v slog.Value) (string, bool) {
	if v.Kind() == slog.KindString {
		return v.String(), true
	}
	if err, ok := v.Any().(error); ok {
		return err.Error(), true
	}
	return "", false
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.text.WithAttrs(attrs), h.out}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler { return &Handler{h.text.WithGroup(name), h.out} }

// raised matches the frames of a stack above the function that panicked.
var raised = regexp.MustCompile(`(?s)goroutine \d+ \[[^\n]*\]:\n.*?\npanic\([^\n]*\n[^\n]*\n`)

// shorter removes the frames that recovered the panic from a stack.
func shorter(text string) string { return raised.ReplaceAllString(text, "") }
