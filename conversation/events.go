package conversation

import "context"

// EventPage is one encoded response to a read of an event stream.
type EventPage struct {
	// JSON is an array of events, on one line. It is shared between readers and must not be changed.
	JSON []byte
	// Next is the number of the last event read, -1 if there was none; the next read is after it.
	// Numbers are encoded as offsets are.
	Next int64
	// UpToDate is set if the read reached the current end of the stream. Closed is set if no more
	// events will follow.
	UpToDate, Closed bool
	// Through is the offset up to which the conversation was read. A reader that is up to date waits
	// for the next one.
	Through Offset
}

// EventReader is an optional interface of a [Reader]. It presents a conversation as a stream of
// events, as the beta protocol does; see package feed. A read never activates a conversation. A
// conversation that was never created returns CodeStreamNotFound. Implementations are safe for
// concurrent use.
type EventReader interface {
	// EventTail returns a page without events at the end of the stream.
	EventTail(ctx context.Context, at Address) (EventPage, error)
	// Events returns at most limit events after a number. A number beyond the end is not an error; the
	// page is empty.
	Events(ctx context.Context, at Address, after int64, limit int) (EventPage, error)
}
