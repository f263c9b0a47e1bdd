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

// panicError says that this version panics over a log. Reading it again ends the same way.
type panicError struct {
	reason any
	stack  string
}

func panicked(reason any) *panicError { return &panicError{reason, string(debug.Stack())} }

// Error implements error.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.reason) }

// LogValue implements slog.LogValuer: people also want to know where it was.
func (e *panicError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("panic", fmt.Sprint(e.reason)), slog.String("stack", e.stack))
}

// contain makes a panic over what a log says an error, where it is deferred: one
// conversation must not end the node, nor leave a lock behind.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = panicked(p)
	}
}

// answer is contain for what answers a reader.
func (s *Set) answer(key conversation.Key, err *error) {
	if p := recover(); p != nil {
		e := panicked(p)
		s.options.Logger.Error("conversation cannot be shown", "conversation", string(key), "err", e)
		*err = s.explain(key, e)
	}
}

// reading reads a log in the background, once that is permitted.
func (s *Set) reading(ctx context.Context, key conversation.Key, read func() error) (err error) {
	over, err := s.options.Reading(ctx, key)
	if err != nil {
		return err
	}
	defer over()
	defer contain(&err)
	return read()
}

// damaged reports whether the owner of a log should look whether it can still be opened.
func damaged(err error) bool {
	var p *panicError
	return storage.IsCorrupt(err) || errors.As(err, &p)
}
