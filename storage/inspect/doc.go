// Package inspect looks at what a bucket holds: it shows single objects, checks
// conversations or a whole bucket, and repairs what can be repaired without a guess.
//
// Command parley calls it ("parley log"). It reads objects one by one, by itself, and the
// log a second time through package storage, so that each checks the other.
//
// [Verify] finds three kinds of things. Damage is what nothing stored makes good.
// Repairable is what [Repair] mends, and nothing is lost by either: readers and writers
// get on with it as it is. A note is neither; some notes are about leftovers, which cost space
// and nothing else. What [Repair] mends, leftovers among it, is exactly
//
//	a lost head           written again, for the newest checkpoint that fits the log
//	a lost checkpoint     the head names an older one, or none: the log is folded then
//	an orphan object      a claim of a writer that lost, a checkpoint or page nobody names
//	a duplicate segment   one whose batches other segments hold
//	an unreadable batch   that a segment holds: deleted, or written again if it is pinned
//
// [Cut] cuts the end off a log that cannot be read to it, which loses what it lists.
//
// Guarantees:
//
//  1. [Dump] and [Verify] change nothing.
//  2. Verify does not report a log as damaged because it grows, or is compacted, while it
//     is read: what it finds is reported only if a second look finds it again.
//  3. Verify needs memory for the segments' names, attachments' digests, claims and
//     findings of the conversations it is at, and for a few batches, not for their logs.
//  4. Repair deletes or replaces nothing of a conversation that has damage, and never the
//     highest batch of a log or the first of a writer.
//  5. Repair and Cut refuse a bucket that somebody serves, as far as heartbeats show it.
//  6. Cut destroys nothing, and no writer of before can store a batch where it has cut.
//
// Everything here is safe for concurrent use. All goroutines have ended when a call
// returns. What is reported is reported by one goroutine at a time.
//
// A repair that is interrupted leaves what a second one finds.
package inspect
