package observability

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
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
	// Write stores all events or returns an error; some may be stored then. Events are
	// read-only and the slice belongs to the caller afterwards.
	Write(ctx context.Context, events []Event) error
}

var errExited = errors.New("write events: the sink ended its goroutine")

// Attempt starts one Write with a deadline, on a goroutine of its own, and returns where
// its one outcome will be. A sink is an author's code and must not end the process of the
// conversations: one that panics, or ends its goroutine, has failed.
func Attempt(ctx context.Context, s Sink, events []Event, timeout time.Duration) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := errExited
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("write events: panic: %v\n%s", p, debug.Stack())
			}
			done <- err
		}()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err = s.Write(ctx, events)
	}()
	return done
}
