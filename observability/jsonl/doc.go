// Package jsonl is the sink of observability events that writes JSON lines to a file or any writer.
//
// Commands create a [File] or a [Writer] and pass it to the actors; [ReadFiles] or [Read] read the
// events.
//
// Guarantees of a File:
//
//  1. After Write has returned nil, the events are in the file and, unless
//     Options.SyncEvery delays that, survive a power loss.
//  2. A line is never mixed with that of another File over the same path, in this process or
//     another, on a local disk. A line truncated by a crash or a full disk corrupts no other.
//  3. Rotation renames; events are lost only with the oldest file, when there are more than
//     Options.Keep.
//
// Events that are written again are stored twice: readers deduplicate them by id. A File and a Writer
// are safe for concurrent use. After a crash the last line may be truncated; readers skip it, because
// its Write had not returned.
package jsonl
