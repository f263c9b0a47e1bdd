// Package sse reads server-sent events, including the deviations of model vendors.
//
// The codecs of providers use it. It imports the standard library only.
//
// Guarantees of Reader:
//
//  1. Lines may end in LF, CR or CRLF, mixed within one stream. An event is returned as soon as its
//     blank line is complete: a CR does not wait for a possible LF.
//  2. A leading byte order mark, comments, unknown fields and events without a data field are skipped.
//     Events without a name are returned like others.
//  3. Several data lines are joined by LF, and no other byte of data changes. A character split over
//     two reads is returned whole.
//  4. An event at the end of the stream without its blank line is returned with Unterminated set,
//     since some vendors omit the last blank line. The caller must distinguish it from a truncated
//     stream.
//  5. The memory of an event is bounded; the first event over the limit ends the stream with a
//     *TooLargeError.
//
// JSON decodes the data of events, for codecs.
//
// A Reader belongs to one goroutine and starts none.
package sse
