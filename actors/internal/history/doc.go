// Package history stores the closed history of conversations: pages, checkpoints and segments, and
// deletes the objects that they replace. Package actors has one [Store] for each node and one
// [Archive] for each conversation in memory.
//
// Guarantees:
//
//  1. A checkpoint is stored after its pages. One is stored at a time, and a newer one replaces a queued one. A failed one
//     needs no retry.
//  2. A log is compacted into segments only up to a stored checkpoint. Replaced batches stay for a while, for readers that
//     are about to read them.
//  3. Closed history is rendered from memory, from the bucket, or, if a page is corrupt, from the log.
//
// All types are safe for concurrent use. Nothing here is authoritative: after a crash the log has
// everything.
package history
