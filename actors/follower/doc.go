// Package follower serves reads of conversations. For each conversation with readers on this node, a
// follower holds one materialized view of the log and answers all readers from it. A [Set] holds the
// followers of a node and implements [conversation.Reader] except for the content of attachments.
// Edges call its read methods. The owner of a conversation calls [Set.Offer] for every batch that it
// made durable and verified. The relay, which receives the batches of other nodes, calls
// [Set.OfferStored], [Set.Behind] and [Set.Recheck].
//
// A follower is opened from the bucket and then fed by pushes. A push is a hint. A gap in sequence
// numbers, or a previous hash that does not match, makes the follower read the bucket after its tip. A
// different hash under a known number makes it drop the view and read the log from its start. The
// package never writes to the bucket and never activates a conversation.
//
// The head of the log is the tip in memory if all writers offer their batches here. If other nodes
// write as well, which [Options.Tip] or [Options.Strict] declares, each read asks for the head.
//
// Guarantees:
//
//  1. Every page is a contiguous run of batches in log order. Next of one page is where the
//     following page begins. A reader that resumes from Next sees every batch of the conversation's
//     current incarnation exactly once.
//  2. A batch in the retained window is projected and encoded once. The page of exactly that batch
//     is the same slice for every reader. A snapshot is encoded once per offset. Older pages are
//     read from the bucket with one read in flight per page; the newest are cached.
//  3. A read reports "not found", or an offset beyond the head, only after a bucket read that began
//     after the request. Absence is not cached.
//  4. Batches before the creation of the current incarnation (claims and deleted incarnations)
//     project to nothing and are skipped.
//  5. One load per conversation is in flight and all callers share it. A caller that leaves does
//     not cancel it for the others. [Set.Run] waits for all loads.
//  6. A batch releases all waiting readers with one channel close.
//  7. If other nodes write, a read returns at least all batches that were durable when it began: an
//     owner confirmed the head, or a bucket read succeeded, after the read began. The exception is
//     a read of [conversation.Tailing], which uses the view as it is; Wait checks only once. One
//     inquiry and one bucket read per conversation are in flight; all earlier reads share them.
//  8. Tailing readers miss no batch permanently, as long as pushes, [Set.Behind] or [Set.Recheck]
//     eventually report it. Head checks of other reads, and a bucket that does not answer them,
//     neither delay nor end a tailing read.
//  9. The memory of all followers is bounded by [Options.MaxBytes] and the node's budget, as far as
//     it is counted. Over the bound, followers without readers are evicted. If that is not enough,
//     a read makes a follower that ends with it. Then few followers grow at a time, and a wait is
//     refused.
//
// A Set is safe for concurrent use. Offered records and positions, and returned pages, are shared and
// must not be changed.
//
// Everything in this package is a cache. After a crash nothing is missing: a reader returns with its
// offset and the follower is opened from the bucket again.
package follower
