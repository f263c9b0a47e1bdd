package follower

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/storage"
)

// panicError reports that folding or encoding a log panics in this version. Reading the log again does
// not help.
type panicError struct {
	reason any
	stack  string
}

func panicked(reason any) *panicError { return &panicError{reason, string(debug.Stack())} }

// Error implements error.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.reason) }

// LogValue implements slog.LogValuer and adds the stack.
func (e *panicError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("panic", fmt.Sprint(e.reason)), slog.String("stack", e.stack))
}

// contain turns a panic into an error; it is deferred. A log that makes this version panic must
// neither end the node nor leave a lock held.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = panicked(p)
	}
}

// answer recovers a panic of a read method of a [Set], like contain. It also logs the panic and
// reports the log as corrupt.
func (s *Set) answer(key conversation.Key, err *error) {
	if p := recover(); p != nil {
		e := panicked(p)
		s.options.Logger.Error("conversation cannot be served", "conversation", string(key), "err", e)
		*err = s.explain(key, e)
	}
}

// reading runs read in the background once [Options.Reading] permits it.
func (s *Set) reading(ctx context.Context, key conversation.Key, read func() error) (err error) {
	over, err := s.options.Reading(ctx, key)
	if err != nil {
		return err
	}
	defer over()
	defer contain(&err)
	return read()
}

// corrupt reports whether the owner of the log must check that the log can still be opened.
func corrupt(err error) bool {
	var p *panicError
	return storage.IsCorrupt(err) || errors.As(err, &p)
}
