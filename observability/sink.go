package observability

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parleyrun/parley/internal/contain"
)

// Sink is a destination of events.
//
// Implementations of Write return nil only once all events are stored, and must pass the suite of
// package sinktest. The exporter calls Write from one goroutine, in order, never from a turn, with a
// context that has a deadline. After an error the same events come again, possibly in other groups and
// after others: sinks deduplicate them by id.
type Sink interface {
	// Name returns the name in logs and metrics: lower-case letters.
	Name() string
	// Write stores all events or returns an error; some may be stored then. A [*RejectedError] counts
	// events that can never be stored; all others are stored. Events are read-only, and the caller
	// owns the slice afterwards.
	Write(ctx context.Context, events []Event) error
}

// Batcher is a [Sink] for which one large Write is cheaper than many small ones. A [Buffer] collects
// events for it, unless its options set other values.
type Batcher interface {
	Sink
	// Batch returns the maximum number of events per Write, and how long the first may wait for the
	// others. It is called once.
	Batch() (events int, linger time.Duration)
}

// RejectedError reports events that a destination rejects. Unless Again is set, the other events of
// the Write are stored, and none is written again.
type RejectedError struct {
	// Events counts the rejected events by reason, a label of metrics: one of a few constant
	// lower-case words, such as too_large.
	Events map[string]int
	// Again reports that nothing is stored and a retry may succeed, for example after a login.
	Again bool
	// Err is the first rejection.
	Err error
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%d events rejected: %v", e.count(), e.Err)
}

// Unwrap returns the first rejection.
func (e *RejectedError) Unwrap() error { return e.Err }

func (e *RejectedError) count() (n int) {
	for _, k := range e.Events {
		n += k
	}
	return n
}

// Rejections counts events that destinations have rejected, by reason. The zero value is ready.
type Rejections map[string]int64

// Take counts a [*RejectedError] returned by a Write and returns how many of n events were stored.
// other is not nil if the events must be written again.
func (r *Rejections) Take(err error, n int) (stored int, other error) {
	var rejected *RejectedError
	if !errors.As(err, &rejected) {
		return n, err
	}
	if *r == nil {
		*r = Rejections{}
	}
	for reason, k := range rejected.Events {
		(*r)[reason] += int64(k)
	}
	if rejected.Again {
		return 0, err
	}
	return max(0, n-rejected.count()), nil
}

// Attempt starts one Write with a timeout on its own goroutine, and returns the channel of its result.
// A sink is author code and must not end the process: one that panics or ends its goroutine has
// failed.
func Attempt(ctx context.Context, s Sink, events []Event, timeout time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		done <- contain.Logged(contain.Run("write events: the sink", func() error { return s.Write(ctx, events) }))
	}()
	return done
}

// batchOf returns the values of a [Batcher], zeros for other sinks.
func batchOf(s Sink) (events int, linger time.Duration) {
	b, ok := s.(Batcher)
	if !ok {
		return 0, 0
	}
	err := contain.Run("sink batches", func() error {
		events, linger = b.Batch()
		return nil
	})
	if err != nil {
		return 0, 0
	}
	return events, linger
}

// NameOf returns the sink name, or an error if its Name does not return.
func NameOf(s Sink) (string, error) {
	return contain.Do("sink name", func() (string, error) { return s.Name(), nil })
}
