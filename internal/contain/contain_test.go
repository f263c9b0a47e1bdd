package contain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parleyrun/parley/internal/contain"
)

// broken is an error whose methods call the fields.
type broken struct{ text, is, as, unwrap func() }

func act(f func()) {
	if f != nil {
		f()
	}
}

func (e *broken) Error() string   { act(e.text); return "broken" }
func (e *broken) Is(error) bool   { act(e.is); return false }
func (e *broken) As(any) bool     { act(e.as); return false }
func (e *broken) Unwrap() error   { act(e.unwrap); return io.EOF }
func (e *broken) Timeout() bool   { act(e.text); return false }
func (e *broken) Temporary() bool { act(e.text); return false }

func crash() { panic("a defect") }

func exit()    { runtime.Goexit() }
func noValue() { noMap()["x"] = 1 }

func noMap() map[string]int { return nil }

// badValue is a panic value whose methods panic again or do not return.
type badValue struct{ act func() }

func (v badValue) Error() string { v.act(); return "" }

func TestDo(t *testing.T) {
	var typedNil *broken
	for name, c := range map[string]struct {
		fn   func() (string, error)
		want string // part of the error's text
		as   any
	}{
		"a panic":                          {func() (string, error) { crash(); return "", nil }, "tool x crashed", new(*contain.PanicError)},
		"a nil map":                        {func() (string, error) { noValue(); return "", nil }, "tool x crashed", new(*contain.PanicError)},
		"Goexit":                           {func() (string, error) { exit(); return "", nil }, "tool x ended its goroutine", new(*contain.ExitError)},
		"a typed nil":                      {func() (string, error) { return "ok", typedNil }, "tool x crashed", new(*contain.PanicError)},
		"a typed nil of our own":           {func() (string, error) { return "ok", (*contain.PanicError)(nil) }, "tool x crashed", new(*contain.PanicError)},
		"a typed nil that is wrapped":      {func() (string, error) { return "ok", fmt.Errorf("y: %w", typedNil) }, "y: <nil>", nil},
		"a typed nil that is joined":       {func() (string, error) { return "ok", errors.Join(typedNil) }, "tool x crashed", new(*contain.PanicError)},
		"Goexit in Error":                  {func() (string, error) { return "ok", &broken{text: exit} }, "tool x ended its goroutine", new(*contain.ExitError)},
		"a panic whose text panics":        {func() (string, error) { panic(badValue{crash}) }, "tool x crashed", new(*contain.PanicError)},
		"a panic whose text never returns": {func() (string, error) { panic(badValue{exit}) }, "tool x crashed", new(*contain.PanicError)},
		"an error":                         {func() (string, error) { return "", &broken{} }, "broken", new(*broken)},
	} {
		got, err := contain.Do("tool x", c.fn)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.as != nil && !errors.As(err, c.as) {
			t.Errorf("%s: got %q, %v (%T), want the text %q and a %T", name, got, err, err, c.want, c.as)
		}
	}
	if got, err := contain.Do("tool x", func() (int, error) { return 7, context.Canceled }); got != 7 || err != context.Canceled {
		t.Errorf("got %v, %v, want 7, context.Canceled", got, err)
	}
}

// TestFrozenErrorsRunNoCodeOfAuthors calls all methods of a returned error.
func TestFrozenErrorsRunNoCodeOfAuthors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, bad := range map[string]func(){"panics": crash, "exits": exit} {
			err := contain.Freeze("x", &broken{is: bad, as: bad, unwrap: bad})
			var exit *contain.ExitError
			if errors.Is(err, io.ErrShortWrite) || errors.As(err, &exit) || errors.Unwrap(err) != nil || err.Error() != "broken" {
				t.Errorf("a method that %s: got %v that matches", name, err)
			}
		}
	})
	err := contain.Freeze("x", fmt.Errorf("read: %w", &broken{}))
	var mine *broken
	if !errors.Is(err, io.EOF) || !errors.As(err, &mine) || err.Error() != "read: broken" {
		t.Errorf("got %v that does not match its wrapped error", err)
	}
	for name, wrapped := range map[string]error{"wrapped": fmt.Errorf("x: %w", (*broken)(nil)), "joined": fmt.Errorf("%w, %w", io.EOF, (*broken)(nil))} {
		var timeout interface{ Timeout() bool }
		if err := contain.Freeze("x", wrapped); errors.As(err, &mine) && mine == nil || errors.As(err, &timeout) {
			t.Errorf("a typed nil that is %s: got %v, %v", name, mine, timeout)
		}
	}
	if err := contain.Freeze("x", nil); err != nil {
		t.Errorf("got %v of nil", err)
	}
}

// TestFrozenErrorsWaitForNoMethod checks that a method that never returns does not block.
func TestFrozenErrorsWaitForNoMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		err := contain.Freeze("x", &broken{is: func() { <-hold }})
		if errors.Is(err, io.ErrShortWrite) {
			t.Error("got true of a method that does not return")
		}
		close(hold)
	})
}

// value has every method that JSON, text and logs use.
type value struct{ act func() }

func (v value) MarshalJSON() ([]byte, error)  { v.act(); return []byte("1"), nil }
func (v *value) UnmarshalJSON([]byte) error   { crash(); return nil }
func (v value) LogValue() slog.Value          { v.act(); return slog.IntValue(1) }
func (v value) Format(f fmt.State, verb rune) { v.act() }

type text struct{ act func() }

func (v text) MarshalText() ([]byte, error)     { v.act(); return []byte("1"), nil }
func (v *text) UnmarshalText(text []byte) error { runtime.Goexit(); return nil }

// failing marshals into an error that is a typed nil.
type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { var e *broken; return nil, e }

func TestEncodeAndDecode(t *testing.T) {
	for name, v := range map[string]any{
		"MarshalJSON panics": value{crash}, "MarshalJSON exits": value{exit}, "MarshalText panics": text{crash}, "MarshalText exits": text{exit},
		"a key exits": map[string]any{"x": []any{value{exit}}}, "a typed nil as error": failing{}, "a channel": make(chan int),
	} {
		if raw, err := contain.Encode("x", v); err == nil || raw != nil || err.Error() == "" {
			t.Errorf("%s: got %s, %v, want an error", name, raw, err)
		}
	}
	if raw, err := contain.Encode("x", map[string]string{"a": "<b>"}); err != nil || string(raw) != `{"a":"<b>"}` {
		t.Errorf("got %s, %v", raw, err)
	}
	for name, dst := range map[string]any{"UnmarshalJSON panics": new(value), "UnmarshalText exits": new(text)} {
		if err := contain.Decode("x", json.RawMessage(`"x"`), dst); err == nil || err.Error() == "" {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
	var mismatch *json.UnmarshalTypeError
	if err := contain.Decode("x", json.RawMessage(`"x"`), new(int)); !errors.As(err, &mismatch) {
		t.Errorf("got %v, want an UnmarshalTypeError", err)
	}
}

func TestStream(t *testing.T) {
	of := func(end func(yield func(int, error) bool)) iter.Seq2[int, error] {
		return contain.Stream(t.Context(), "provider x", func() iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				if yield(1, nil) && yield(2, nil) {
					end(yield)
				}
			}
		})
	}
	var typedNil *broken
	for name, c := range map[string]struct {
		end  func(func(int, error) bool)
		want string
	}{
		"ends":             {func(func(int, error) bool) {}, "12 <nil>"},
		"panics":           {func(func(int, error) bool) { crash() }, "12 provider x crashed"},
		"exits":            {func(func(int, error) bool) { exit() }, "12 provider x ended its goroutine without returning, by runtime.Goexit or FailNow of a test; return an error instead"},
		"yields an error":  {func(yield func(int, error) bool) { yield(0, &broken{}) }, "12 broken"},
		"yields typed nil": {func(yield func(int, error) bool) { yield(0, typedNil) }, "12 provider x crashed"},
		"yields on":        {func(yield func(int, error) bool) { yield(0, io.EOF); yield(3, nil) }, "12 EOF"},
	} {
		got, last := "", error(nil)
		for v, err := range of(c.end) {
			if err != nil {
				last = err
				break
			}
			got += fmt.Sprint(v)
		}
		if got = fmt.Sprintf("%s %v", got, last); got != c.want {
			t.Errorf("an iterator that %s: got %q, want %q", name, got, c.want)
		}
	}
	for v := range of(func(func(int, error) bool) { t.Error("iterator continues after its consumer has stopped") }) {
		if v == 2 {
			break
		}
	}
	for _, err := range contain.Stream(t.Context(), "provider x", func() iter.Seq2[int, error] { return nil }) {
		if err == nil || err.Error() != "provider x crashed" {
			t.Errorf("a nil iterator: got %v", err)
		}
	}
}

// TestStreamLeavesBehind checks that an iterator that ignores its context does not block its consumer.
func TestStreamLeavesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		seq := contain.Stream(ctx, "provider x", func() iter.Seq2[int, error] { <-hold; return nil })
		cancel()
		var got error
		for _, got = range seq {
		}
		if !errors.Is(got, context.Canceled) {
			t.Errorf("got %v, want %v", got, context.Canceled)
		}
		close(hold)
	})
}

// badHandler is a log handler whose methods all do the same.
type badHandler struct{ act func() }

func (h badHandler) Enabled(context.Context, slog.Level) bool  { h.act(); return true }
func (h badHandler) Handle(context.Context, slog.Record) error { h.act(); return nil }
func (h badHandler) WithAttrs([]slog.Attr) slog.Handler        { h.act(); return nil }
func (h badHandler) WithGroup(string) slog.Handler             { h.act(); return nil }

func TestLogger(t *testing.T) {
	for _, bad := range []func(){crash, exit, func() {}} {
		contain.Logger(slog.New(badHandler{bad})).With("a", 1).WithGroup("g").Error("x", "b", 2)
	}
	var out bytes.Buffer
	log := contain.Logger(slog.New(slog.NewTextHandler(&out, nil)))
	contain.Logger(log).With("a", value{exit}).Info("lost")
	log.With("a", 1).Info("kept")
	if got := out.String(); !strings.Contains(got, "msg=kept a=1") {
		t.Errorf("got %q, want the line", got)
	}
}

func TestHandle(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(http.ResponseWriter) error
		sent  bool
		want  string
	}{
		"answers":             {func(w http.ResponseWriter) error { w.WriteHeader(202); return nil }, true, "<nil>"},
		"returns an error":    {func(http.ResponseWriter) error { return &broken{} }, false, "broken"},
		"panics":              {func(http.ResponseWriter) error { crash(); return nil }, false, "route x crashed"},
		"panics after a hint": {func(w http.ResponseWriter) error { w.WriteHeader(103); crash(); return nil }, false, "route x crashed"},
		"panics in mid-reply": {func(w http.ResponseWriter) error { w.Write([]byte("x")); crash(); return nil }, true, "route x crashed"},
		"flushes and panics":  {func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); crash(); return nil }, true, "route x crashed"},
		"aborts":              {func(http.ResponseWriter) error { panic(http.ErrAbortHandler) }, true, http.ErrAbortHandler.Error()},
	} {
		sent, err := contain.Handle("route x", httptest.NewRecorder(), c.serve)
		if sent != c.sent || fmt.Sprint(err) != c.want {
			t.Errorf("a handler that %s: got %t, %v, want %t, %s", name, sent, err, c.sent, c.want)
		}
	}
	if err := contain.Logged(contain.Run("x", func() error { panic("a defect") })); !strings.Contains(err.Error(), "x crashed: panic: a defect\n") {
		t.Errorf("got the log's text %q, want the value and the stack of the panic", err)
	}
}
