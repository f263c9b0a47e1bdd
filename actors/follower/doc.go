// Package follower keeps, on a node that has readers of a conversation, one
// materialized view of it and answers all of them from there. A [Set] holds the
// followers of a node and implements all of [conversation.Reader] but the content of
// attachments; edges call its read methods, the owner of a conversation calls [Set.Offer] for every batch it made
// durable and verified, and whoever hears of the batches of other nodes calls
// [Set.OfferStored], [Set.Behind] and [Set.Recheck].
//
// A follower is opened from the bucket and then fed by pushes. A push is a hint:
// a gap, or a previous hash that does not fit, makes it read the bucket after
// what it has; another hash under a number it has makes it forget everything and
// read the bucket from the start. The package never writes and never activates a
// conversation.
//
// Where does the log end? If all its writers offer here, where memory does. If other
// nodes write as well, that is with [Options.Tip] or [Options.Strict], a read asks.
//
// Guarantees:
//
//  1. Every page is a contiguous run of batches in log order; Next of one page is
//     where the following one begins. A reader that resumes from Next sees every
//     batch of the conversation's present life exactly once.
//  2. While a batch is in the retained window it is projected and encoded once,
//     and the page of exactly that batch is the same slice for every reader. A
//     snapshot is encoded once per offset. Older pages are read from the bucket,
//     one read per page in flight, and the last of them are kept.
//  3. Nothing is answered as absent, and no offset as beyond the head, before a
//     bucket read that began after the request said so. Absence is not cached.
//  4. Batches before the creation of the present life, that is claims and the
//     lives that were deleted, project to nothing and are passed over.
//  5. One load per conversation is in flight and all callers share it; a caller
//     that leaves does not end it for the others. [Set.Run] waits for all loads.
//  6. A batch wakes all its waiting readers with one channel close.
//  7. If other nodes write, a read shows at least what was durable when it began:
//     somebody vouched for that after it began, or a bucket read that began after it
//     has succeeded. The exception is a read of [conversation.Tailing], which goes on
//     with what is at hand; Wait looks only once. One question and one bucket read
//     per conversation are in flight, and all reads that began before share them.
//  8. Readers that tail miss nothing for good, if pushes, [Set.Behind] or
//     [Set.Recheck] say in the end what is there. Neither the doubts of other reads
//     nor a bucket that does not answer them delay or end a read that tails.
//  9. What all followers hold is bounded by [Options.MaxBytes] and the node's budget, as
//     far as they count it. Over it, those without readers are dropped. If that is not
//     enough, a conversation is read by a follower that ends with the read, few grow at a
//     time, and who would have to wait there is refused.
//
// A Set is safe for concurrent use. Records and positions that are offered are
// shared and must not be changed; returned pages are shared and must not be
// changed.
//
// Everything here is a cache. After a crash nothing is missing: a reader comes
// back with its offset and the follower is opened from the bucket again.
package follower
