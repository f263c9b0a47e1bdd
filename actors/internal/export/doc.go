// Package export ships the durable events of conversations to sinks. The log is the spool: events are
// a pure function of a batch, so only a cursor is stored, the number of the last batch whose events
// all sinks have. Package actors reports opened conversations and landed batches to an [Exporter], and
// asks it when a conversation may leave the pending-work journal.
//
// Offered batches wait in memory up to a bound. Batches beyond the bound, and batches that were not
// offered, are read from the log later. Conversations that no other record covers are listed in this
// node's export journals. Other nodes take over the journals of a crashed node.
//
// Guarantees:
//
//  1. A cursor moves past a batch only when all sinks have stored its events and those of all
//     earlier batches of the conversation. Sinks may get events twice, with the same id. Apart from
//     that, events of one conversation arrive in order.
//  2. Once [Exporter.MayLeave] is true for a conversation, its durable events offered or announced
//     until then reach the sinks in spite of crashes. Either all sinks have them, or an export
//     journal that landed later lists the conversation. It is a journal of this node, or of one
//     that took it over, even by mistake.
//  3. Each shard has one journal write in flight and at most one per JournalEvery. Numbers only
//     grow, and the bytes of a number never change. Number n-1 is deleted only after n has landed.
//     Another node's journal is deleted only once all of it is exported or in the own landed
//     journals.
//  4. Open, Offer, Emit, MayLeave, Cursor and Closed do no I/O and wait for none. They share a lock
//     that is held for microseconds. Composing a journal holds it for about a millisecond per ten
//     thousand conversations of a shard.
//  5. Memory is bounded: waiting events up to MemoryBytes by [observability.Size], plus one batch
//     for each caller of Offer and each reader; a group, and the slice of the last one; up to 8
//     batches read ahead by each of the Readers; live events up to LiveBytes per sink, and about 5
//     MiB for their slices; less than 1 KiB per conversation that is open or behind, with its ids.
//  6. A log that is corrupt, or that makes this version panic, delays no other. It is skipped after
//     some attempts, logged and counted; its events can be exported again once it is repaired. A
//     log that the bucket refuses or does not return blocks at most one of the Readers.
//
// An Exporter is safe for concurrent use. All its goroutines belong to [Exporter.Run].
//
// After a crash no event covered by guarantee 2 is lost. Conversations that were not yet allowed to
// leave are in the pending-work journal. The node that takes one over passes the cursor of its
// checkpoint to [Exporter.Open].
package export
