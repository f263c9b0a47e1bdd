// Package storage keeps everything of Parley that must survive: the log of
// every conversation, the journals of the nodes, attachments, members and the format
// stamp, as objects behind one small seam, [Bucket].
//
// Package actors calls it; storage/s3 and storage/local implement Bucket. The
// package knows conversations by key and records as opaque JSON lines.
//
// [KeyTemplates] lists what objects there are, and [ParseKey] reads a key;
// docs/format.md describes all of them. Keys have 16 decimal digits for a number, so that
// the order of LIST is the order of numbers.
//
// Guarantees of the log. They need a bucket with an atomic conditional create
// and a strongly consistent LIST, and nothing else: no clock, no lease.
//
//  1. A batch once sent is retried with the same bytes under the same key until
//     its outcome is known (R1).
//  2. [Writer.Append] returns a position only if exactly these bytes are stored
//     under it: a 412 is read back, and only an own batch is a success (R2).
//  3. The first batch of a writer is acknowledged only after a LIST has shown
//     nothing above it (R4).
//  4. A writer that lost its place or does not know the outcome never writes
//     again.
//  5. What [Logs.Batches] and [Logs.Range] yield is contiguous and fits the hash chain
//     that [Batch] states, wherever it lies; anything else is a [*GapError] or a
//     [*CorruptError] (R6).
//  6. A [Compactor] calls only batches that a segment holds garbage, and never the first
//     of a writer (R3) or the highest of a log (R5).
//
// Logs and the functions of this package are safe for concurrent use; a Writer or a
// JournalWriter belongs to one goroutine at a time. No goroutine outlives the call
// it serves.
//
// After a crash everything that was acknowledged is in the bucket. A batch whose
// outcome was unknown may be there, once and unchanged, or may still appear, but
// never above a batch of a later writer.
//
// To implement Bucket, run storagetest.RunBucket and storagetest.RunLog on it.
package storage
