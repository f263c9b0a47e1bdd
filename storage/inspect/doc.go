// Package inspect examines the content of a bucket: it prints single objects, verifies conversations
// or a whole bucket, and repairs corruption that can be repaired without data loss.
//
// Command parley calls it ("parley log"). It reads the objects one by one, and then the log again
// through package storage, so that each check covers the other.
//
// [Verify] reports three severities. Corruption cannot be repaired from stored data. Repairable
// findings lose no data, neither by themselves nor by [Repair]; readers and writers work in spite of
// them. A note is neither; some notes are about leftovers, which only take space. [Repair] fixes
// exactly these, including leftovers:
//
//	a lost head           written again, for the newest checkpoint that fits the log
//	a lost checkpoint     the head names an older one, or none: the log is folded then
//	an orphan object      a claim of a writer that lost, or an unreferenced checkpoint or page
//	a duplicate segment   one whose batches other segments hold
//	an unreadable batch   that a segment holds: deleted, or written again if it is pinned
//
// [Truncate] truncates a log that is unreadable before its end, which loses the batches that it lists.
//
// Guarantees:
//
//  1. [Dump] and [Verify] change nothing.
//  2. Verify does not report a log as corrupt because it grows or is compacted during the
//     check: it reports only findings that a second check confirms.
//  3. Verify needs memory for the segment names, attachment digests, claims and findings of
//     the conversations in progress, and for a few batches, not for their logs.
//  4. Repair deletes or replaces nothing of a conversation that has corruption, and never the
//     highest batch of a log or the first of a writer.
//  5. Repair and Truncate reject a bucket that a node serves, as far as heartbeats show it.
//  6. Truncate destroys nothing, and no earlier writer can store a batch after the truncation.
//
// All functions are safe for concurrent use. All goroutines have ended when a call returns. Calls of a
// report function are sequential. An interrupted repair can be repeated.
package inspect
