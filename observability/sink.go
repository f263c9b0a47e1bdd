package observability

import "context"

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
