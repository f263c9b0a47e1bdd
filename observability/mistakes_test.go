package observability_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/observability"
)

// defect is an error whose methods panic for a typed nil.
type defect struct{ text string }

func (e *defect) Error() string { return e.text }
func (e *defect) Is(error) bool { return e.text == "" }

func mistakes() map[string]func() error {
	return map[string]func() error{
		"panics":                  func() error { panic("a defect") },
		"panics with a typed nil": func() error { var e *defect; panic(e) },
		"exits":                   func() error { runtime.Goexit(); return nil },
		"returns a typed nil":     func() error { var e *defect; return e },
		"joins a typed nil":       func() error { var e *defect; return errors.Join(e) },
	}
}

// mistaken is a sink whose methods misbehave.
type mistaken struct{ act func() error }

func (m mistaken) Name() string                                       { return m.act().Error() }
func (m mistaken) Write(context.Context, []observability.Event) error { return m.act() }

// TestMistakesOfASink checks that any misbehavior of a sink is one failed Write.
func TestMistakesOfASink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for desc, act := range mistakes() {
			if name, err := observability.NameOf(mistaken{act}); err == nil {
				t.Errorf("Name %s: got %q", desc, name)
			}
			err := <-observability.Attempt(t.Context(), mistaken{act}, nil, time.Second)
			if err == nil || err.Error() == "" || errors.Is(err, io.EOF) {
				t.Errorf("Write %s: got %v", desc, err)
			}
			b := observability.NewBuffer(mistaken{act}, &observability.BufferOptions{Logger: slog.New(&badHandler{act})})
			stop := run(t, b)
			b.Put(deltas(3)...)
			time.Sleep(time.Minute)
			stop()
			if c := b.Counts(); c.Dropped != 3 || b.Name() != "unnamed" {
				t.Errorf("sink %s: got %q, %+v, want 3 dropped of \"unnamed\"", desc, b.Name(), c)
			}
		}
	})
}

// TestMistakesOfACallback checks that the other functions are still called.
func TestMistakesOfACallback(t *testing.T) {
	for desc, act := range mistakes() {
		var log bytes.Buffer
		seen := 0
		o := &observability.Callbacks{
			Any:       func(observability.Event) { panic(act()) },
			TextDelta: func(*observability.Envelope, *observability.TextDelta) { seen++ },
			Logger:    slog.New(slog.NewTextHandler(&log, nil)),
		}
		if err := o.Write(t.Context(), deltas(2)); err != nil || seen != 2 || strings.Count(log.String(), "msg=\"observer ") != 2 {
			t.Errorf("callback %s: got %v, %d of 2 others called, log:\n%s", desc, err, seen, log.String())
		}
	}
}

// badHandler is a log handler whose methods misbehave.
type badHandler struct{ act func() error }

func (h *badHandler) Enabled(context.Context, slog.Level) bool  { return h.act() == nil }
func (h *badHandler) Handle(context.Context, slog.Record) error { return h.act() }
func (h *badHandler) WithAttrs([]slog.Attr) slog.Handler        { _ = h.act(); return h }
func (h *badHandler) WithGroup(string) slog.Handler             { _ = h.act(); return h }
