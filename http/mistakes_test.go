package http_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	parleyhttp "github.com/parleyrun/parley/http"
)

// lostLog is a log handler that misbehaves on every line.
type lostLog struct{ act func() string }

func (l lostLog) Enabled(context.Context, slog.Level) bool  { return l.act() == "" }
func (l lostLog) Handle(context.Context, slog.Record) error { return errors.New(l.act()) }
func (l lostLog) WithAttrs([]slog.Attr) slog.Handler        { _ = l.act(); return l }
func (l lostLog) WithGroup(string) slog.Handler             { _ = l.act(); return l }

// TestMistakesOfOptions checks that panicking or blocking option functions fail only requests that
// depend on them.
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

// customChannel is a channel with its own handler, not a [channels.Endpoint].
type customChannel struct{ serve channels.Handler }

// Routes implements [channels.Channel].
func (c customChannel) Routes() []channels.Route {
	return []channels.Route{{Method: http.MethodPost, Path: "/webhook", Handler: c.serve}}
}

// TestMistakesOfChannelHandlers checks that a panicking or blocking channel handler fails only its
// request. The response is an error envelope if nothing was sent, and the delivery counts as failed.
// covers: channels/173
func TestMistakesOfChannelHandlers(t *testing.T) {
	half := func(w http.ResponseWriter, then func()) error { _, _ = w.Write([]byte("half")); then(); return nil }
	for name, tt := range map[string]struct {
		serve  channels.Handler
		status int // 0 for a broken connection
		logged string
	}{
		"panics":              {func(http.ResponseWriter, *http.Request) error { panic("a defect") }, 500, "panic: a defect"},
		"exits":               {func(http.ResponseWriter, *http.Request) error { runtime.Goexit(); return nil }, 500, "ended its goroutine"},
		"aborts":              {func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }, 0, ""},
		"exits in mid-reply":  {func(w http.ResponseWriter, _ *http.Request) error { return half(w, runtime.Goexit) }, 0, "ended its goroutine"},
		"panics in mid-reply": {func(w http.ResponseWriter, _ *http.Request) error { return half(w, func() { panic("a defect") }) }, 0, "panic: a defect"},
	} {
		var logged bytes.Buffer
		h, err := parleyhttp.New(nil, nil, nil, &parleyhttp.Options{
			Channels: map[string]channels.Channel{"custom": customChannel{tt.serve}}, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		broken := func() (v any) {
			defer func() { v = recover() }()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/channels/custom/webhook", nil))
			return nil
		}()
		if (broken == http.ErrAbortHandler) != (tt.status == 0) || tt.status != 0 && w.Code != tt.status {
			t.Errorf("a handler that %s: got status %d and panic %v, want %d", name, w.Code, broken, tt.status)
		}
		if got := h.Deliveries(); len(got) != 1 || got[0].Result != channels.ResultFailed {
			t.Errorf("a handler that %s: got the counts %+v, want one as failed", name, got)
		}
		if got := logged.String(); !strings.Contains(got, tt.logged) || tt.logged == "" && strings.Contains(got, "ERROR") {
			t.Errorf("a handler that %s: got the log %q, want %q", name, got, tt.logged)
		}
	}
}
