// Package jsonl is the sink of observability events that writes one JSON object a line,
// to a file or to any writer.
//
// Commands make a [File] or a [Writer] and give it to the actors; whoever looks at the
// events reads them back with [ReadFiles] or [Read].
//
// Guarantees of a File:
//
//  1. After Write has returned nil, the events are in the file and, unless
//     Options.SyncEvery says otherwise, survive a power cut.
//  2. A line is never mixed with that of another File over the same path, in this
//     process or another, on a local disk; a line that was begun and not ended, by a
//     crash or a full disk, spoils no other.
//  3. Rotation renames; no event is lost by it but with the oldest file, when there are
//     more than Options.Keep.
//
// Events that are written again are there twice: readers tell them apart by their ids.
// A File and a Writer are safe for concurrent use. After a crash the last line may be
// torn; readers pass over it, its Write had not returned.
package jsonl
