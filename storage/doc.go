// Package storage holds the durable state of Parley as objects behind one small interface, [Bucket]:
// the log of every conversation, the journals of the nodes, attachments, the member table and the
// format stamp.
//
// Package actors calls it; storage/s3 and storage/local implement Bucket. The package knows
// conversations by key and records as opaque JSON lines.
//
// [KeyTemplates] lists the kinds of objects, and [ParseKey] parses a key; docs/format.md describes
// them. Numbers in keys have 16 decimal digits, so LIST returns them in numeric order.
//
// Guarantees of the log. They need only a bucket with an atomic conditional create and a strongly
// consistent LIST; they need no clock and no lease.
//
//  1. A batch is retried with the same bytes under the same key until its outcome is
//     known (R1).
//  2. [Writer.Append] returns a position only if exactly these bytes are stored under it:
//     after a 412 it reads the object back, and only its own batch is a success (R2).
//  3. The first batch of a writer is acknowledged only after a LIST has returned nothing
//     above it (R4).
//  4. A writer that is fenced or has an unknown outcome never writes again.
//  5. The batches from [Logs.Batches] and [Logs.Range] are contiguous and continue the hash
//     chain of [Batch], wherever they are stored; anything else is a [*GapError] or a
//     [*CorruptError] (R6).
//  6. A [Compactor] reports only batches that a segment holds as garbage, and never the
//     first of a writer (R3) or the highest of a log (R5).
//
// Logs and the functions of this package are safe for concurrent use. A Writer or a JournalWriter
// belongs to one goroutine at a time. No goroutine outlives the call that started it.
//
// After a crash every acknowledged object is in the bucket. A batch with an unknown outcome may be
// there, once and unchanged, or may still appear, but never above a batch of a later writer.
//
// Implementations of Bucket must pass storagetest.RunBucket and storagetest.RunLog.
package storage
