package http_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"

	parleyhttp "github.com/parleyrun/parley/http"
)

// lostLog is a handler of logs that makes a mistake with every line.
type lostLog struct{ act func() string }

func (l lostLog) Enabled(context.Context, slog.Level) bool  { return l.act() == "" }
func (l lostLog) Handle(context.Context, slog.Record) error { return errors.New(l.act()) }
func (l lostLog) WithAttrs([]slog.Attr) slog.Handler        { _ = l.act(); return l }
func (l lostLog) WithGroup(string) slog.Handler             { _ = l.act(); return l }

// TestMistakesOfOptions: functions of the options that panic or do not return fail no request that can do without them.
func TestMistakesOfOptions(t *testing.T) {
	for name, act := range map[string]func() string{"panics": func() string { panic("a defect") }, "exits": func() string { runtime.Goexit(); return "" }} {
		h := newHarness(t, func(o *parleyhttp.Options) {
			o.NewKey, o.NewRef, o.Logger = act, act, slog.New(lostLog{act})
			o.SpoolAllowed = func(int64) error { return errors.New(act()) }
			o.MemoryBytes = 1 << 10
		})
		wantStatus(t, h.post("/c1", hello), http.StatusAccepted)
		if key := h.rt.admissions[0].Key; key == "" {
			t.Errorf("a NewKey that %s: got no key", name)
		}
		if resp := h.post("/c2", `{"kind":"user","body":"`+strings.Repeat("x", 1<<20)+`"}`); resp.StatusCode < 500 {
			t.Errorf("a SpoolAllowed that %s: got status %d, want 500 or 503", name, resp.StatusCode)
		}
		h.rt.fail = func(string) error { return errors.New("secret") }
		resp := h.post("/c1", hello)
		if ref := resp.Header.Get("Parley-Error-Ref"); resp.StatusCode != http.StatusInternalServerError || !strings.HasPrefix(ref, "err_") {
			t.Errorf("a NewRef that %s: got status %d, ref %q, want 500 with a ref", name, resp.StatusCode, ref)
		}
	}
}
