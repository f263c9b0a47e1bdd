// Package history keeps what conversations were: pages of closed history, checkpoints,
// segments, and what those have replaced. Package actors has one [Store] for each node, and
// one [Archive] for each conversation in memory.
//
// Guarantees:
//
//  1. A checkpoint is stored after the pages that it names, one at a time; of those that
//     wait the newest is enough, and one that fails is not missed.
//  2. A log is put into segments no farther than a stored checkpoint goes, and what they
//     replace stays for a while, for readers who are about to read it.
//  3. What is shown of closed history comes from memory, from the bucket, or, if a page is
//     not what it should be, from the log itself.
//
// All types are safe for concurrent use. Nothing here is the truth: after a crash the log
// has everything.
package history
