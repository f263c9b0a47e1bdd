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
// To write one: implement Write so that it returns nil only once all events are where
// they shall be, and run the suite of package sinktest. The exporter calls Write from
// one goroutine at a time, in order, and never from a turn; it gives a context with a
// deadline. After an error the same events come again, possibly in other groups and
// after others: a sink tells them apart by their ids.
type Sink interface {
	// Name names the sink in logs and metrics: lower-case letters.
	Name() string
	// Write stores all events or returns an error; some may be stored then. A
	// [*RejectedError] counts events that can never be stored, while all others are. Events
	// are read-only and the slice belongs to the caller afterwards.
	Write(ctx context.Context, events []Event) error
}

// Batcher is a [Sink] for which one large Write costs less than many small ones. A [Buffer]
// collects events for it, unless its options say otherwise.
type Batcher interface {
	Sink
	// Batch returns the most events that one Write should have, and how long the first of
	// them may wait for the others. It is asked once.
	Batch() (events int, linger time.Duration)
}

// RejectedError reports events that a destination refuses. The other events of the Write are
// stored: unless Again is set, none of them is written again.
type RejectedError struct {
	// Events counts the rejected ones by reason, a label of metrics: one of a few constant
	// words in lower case, such as too_large.
	Events map[string]int
	// Again is true if nothing is stored, and the destination may take the events later: it
	// asks for a login, for example.
	Again bool
	// Err is the first refusal.
	Err error
}

// Error implements error.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%d events rejected: %v", e.count(), e.Err)
}

// Unwrap returns the first refusal.
func (e *RejectedError) Unwrap() error { return e.Err }

func (e *RejectedError) count() (n int) {
	for _, k := range e.Events {
		n += k
	}
	return n
}

// Rejections counts events that destinations have rejected, by reason. The zero value is
// ready.
type Rejections map[string]int64

// Take counts a [*RejectedError] that is the result of a Write, and returns how many of n
// events were stored. The other error is not nil if they are to be written again.
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

// Attempt starts one Write with a deadline, on a goroutine of its own, and returns where
// its one outcome will be. A sink is an author's code and must not end the process of the
// conversations: one that panics, or ends its goroutine, has failed.
func Attempt(ctx context.Context, s Sink, events []Event, timeout time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		done <- contain.Logged(contain.Run("write events: the sink", func() error { return s.Write(ctx, events) }))
	}()
	return done
}

// batchOf returns what a sink says of its batches, zeros if it says nothing.
func batchOf(s Sink) (events int, linger time.Duration) {
	b, ok := s.(Batcher)
	if !ok {
		return 0, 0
	}
	err := contain.Run("batches of a sink", func() error {
		events, linger = b.Batch()
		return nil
	})
	if err != nil {
		return 0, 0
	}
	return events, linger
}

// NameOf returns the name of a sink. The error is that of a Name which does not return.
func NameOf(s Sink) (string, error) {
	return contain.Do("name of a sink", func() (string, error) { return s.Name(), nil })
}
