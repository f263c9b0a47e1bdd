// Package sse reads server-sent events as model vendors really send them.
//
// The codecs of providers call it; it calls nothing but the standard library.
//
// Guarantees of Reader:
//
//  1. Lines may end in LF, CR or CRLF, mixed within one stream. An event is
//     returned as soon as its blank line is complete: a CR is never held back
//     to see whether an LF follows.
//  2. A leading byte order mark, comments, unknown fields and events without a
//     data field are skipped. Events without a name are returned like others.
//  3. Several data lines are joined by LF, and no other byte of data changes;
//     a character split over two reads arrives whole.
//  4. An event the stream ends in, before its blank line, is returned with
//     Unterminated set, since some vendors leave the last blank line out. Only
//     the caller can tell that from a stream that was cut.
//  5. No event takes more than the limit of memory; the first one over it ends
//     the stream with a *TooLargeError.
//
// JSON decodes the data of events, for codecs.
//
// A Reader belongs to one goroutine and starts none. It holds nothing that
// matters after a crash.
package sse
