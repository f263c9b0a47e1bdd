package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
)

// defect is an error whose methods panic on a nil receiver.
type defect struct{ text string }

func (e *defect) Error() string { return e.text }
func (e *defect) Is(error) bool { return e.text == "" }

// mistaken is a protocol whose methods are faulty.
type mistaken struct {
	act func(yield func(providers.Event, error) bool) error
}

func (m mistaken) Stream(context.Context, providers.Model, providers.Request, providers.Options) iter.Seq2[providers.Event, error] {
	return func(yield func(providers.Event, error) bool) {
		if yield(providers.TextDelta{Text: "Hi"}, nil) {
			if err := m.act(yield); err != nil {
				yield(nil, err)
			}
		}
	}
}

func (m mistaken) FindCredentials(providers.Model) string { return m.act(nil).Error() }
func (m mistaken) IsKey(string) bool                      { _ = m.act(nil).Error(); return true }

// TestFaultyProtocol checks that a fault of a protocol or of Authorize fails only one call, with a
// usable error.
func TestFaultyProtocol(t *testing.T) {
	var typedNil *defect
	for name, c := range map[string]struct {
		act  func(func(providers.Event, error) bool) error
		want string
	}{
		"panics":                        {func(func(providers.Event, error) bool) error { panic("a defect") }, "provider house crashed"},
		"exits":                         {func(func(providers.Event, error) bool) error { runtime.Goexit(); return nil }, "provider house ended its goroutine"},
		"yields a typed nil":            {func(func(providers.Event, error) bool) error { return typedNil }, "crashed"},
		"yields a typed nil of our own": {func(func(providers.Event, error) bool) error { return (*providers.Error)(nil) }, "crashed"},
		"wraps a typed nil": {func(func(providers.Event, error) bool) error {
			return &providers.Error{Kind: providers.KindOverloaded, Err: typedNil}
		}, "crashed"},
		"yields after the end": {func(yield func(providers.Event, error) bool) error {
			yield(nil, io.EOF)
			yield(nil, io.EOF)
			return nil
		}, "EOF"},
	} {
		r := providers.NewRegistry(nil)
		if err := r.RegisterProvider("house", providers.Registration{API: "own", BaseURL: "http://127.0.0.1:1", APIKey: "sk-secret"}); err != nil {
			t.Fatal(err)
		}
		r.RegisterProtocol("own", mistaken{c.act})
		text, last := "", error(nil)
		for e, err := range r.Stream(t.Context(), "house/large", providers.Request{}, providers.Options{}) {
			if err != nil {
				last = err
				break
			}
			text += e.(providers.TextDelta).Text
		}
		if text != "Hi" || last == nil || !strings.Contains(last.Error(), c.want) || errors.Is(last, io.ErrShortWrite) {
			t.Errorf("a stream that %s: got %q, %v, want the text Hi and an error with %q", name, text, last, c.want)
		}
		if m, err := r.Resolve("house/large"); err != nil || r.Credentials(m) == "x" {
			t.Errorf("credentials of a protocol that %s: got %v", name, err)
		}
		err := r.SetProvider(&providers.Provider{
			ID: "own", Models: []providers.CatalogModel{{ID: "m", API: "own"}}, BaseURL: "http://127.0.0.1:1",
			Authorize: func(context.Context, providers.Model) (providers.Auth, error) {
				return providers.Auth{}, c.act(func(providers.Event, error) bool { return true })
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range r.Stream(t.Context(), "own/m", providers.Request{}, providers.Options{}) {
			if last = err; err != nil {
				break
			}
		}
		if name != "yields after the end" && (last == nil || last.Error() == "" || errors.Is(last, io.ErrShortWrite)) {
			t.Errorf("an authorization that %s: got %v, want an error", name, last)
		}
	}
}

// TestProtocolErrorTypes: an *Error keeps its type, because callers read its fields.
func TestProtocolErrorTypes(t *testing.T) {
	cause := fmt.Errorf("read: %w", &defect{"sk-secret is wrong"})
	for name, yielded := range map[string]error{
		"an Error": &providers.Error{Kind: providers.KindOverloaded, Status: 503, Err: cause}, "wrapped": fmt.Errorf("x: %w", &providers.Error{Kind: providers.KindOverloaded, Status: 503, Err: cause}),
	} {
		r := providers.NewRegistry(nil)
		if err := r.RegisterProvider("house", providers.Registration{API: "own", BaseURL: "http://127.0.0.1:1", APIKey: "sk-secret"}); err != nil {
			t.Fatal(err)
		}
		r.RegisterProtocol("own", mistaken{func(func(providers.Event, error) bool) error { return yielded }})
		for _, err := range r.Stream(t.Context(), "house/large", providers.Request{}, providers.Options{}) {
			var e *providers.Error
			var d *defect
			if err == nil {
				continue
			}
			if !errors.As(err, &e) || e.Status != 503 || !errors.As(err, &d) || strings.Contains(err.Error(), "sk-secret") || strings.Contains(e.Error(), "sk-secret") {
				t.Errorf("%s: got %v (%T), want an *Error with its status and cause, without the key", name, err, err)
			}
		}
	}
}
