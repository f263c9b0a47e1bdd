package conversation

import "context"

// EventPage is one encoded answer to a read of an event stream.
type EventPage struct {
	// JSON is an array of events, on one line. It is shared between readers and must not be
	// changed.
	JSON []byte
	// Next is the number of the last event that was read, -1 if none was: what to read after
	// next. Numbers are written as offsets are.
	Next int64
	// UpToDate is set when the read reached the end of the stream as it is now, and Closed
	// when nothing follows there any more.
	UpToDate, Closed bool
	// Through is how far the conversation was read: who is up to date waits for what comes
	// after it.
	Through Offset
}

// EventReader is what a [Reader] may also be: one that shows a conversation as the beta
// line does, as a stream of events, see package feed. A read never activates a
// conversation, and one that was never created answers CodeStreamNotFound.
// Implementations are safe for concurrent use.
type EventReader interface {
	// EventTail returns a page without events at the end of the stream.
	EventTail(ctx context.Context, at Address) (EventPage, error)
	// Events returns at most limit events after a number. One that is beyond the end is no
	// error: there is nothing after it yet.
	Events(ctx context.Context, at Address, after int64, limit int) (EventPage, error)
}
