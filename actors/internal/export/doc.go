// Package export ships the durable events of conversations to sinks. The log is the
// spool: events are a pure function of a batch, so that a cursor, the number of the last
// batch whose events all sinks have stored, is all that must be kept. Package actors
// tells an [Exporter] which conversations are open and which batches landed, and asks it
// when a conversation may leave the pending-work journal.
//
// What is offered waits in memory up to a bound. What does not fit, or came while nobody
// offered, is read from the log later. Conversations that nothing else remembers stand in
// this node's export journals, which the other nodes take over when it is gone.
//
// Guarantees:
//
//  1. A cursor moves past a batch only when all sinks have stored its events, and those
//     of all batches of the conversation before it. Sinks may get events twice, by the
//     same id; those of one conversation come in order otherwise.
//  2. Once [Exporter.MayLeave] is true for a conversation, its durable events that were
//     offered or announced until then reach the sinks, whatever dies: they have, or it
//     stands in an export journal that landed later, of this node or of one that has taken
//     it over, be it by mistake.
//  3. Of a shard one journal is in flight, at most one is written per JournalEvery, and
//     numbers only grow and never get other bytes. Number n-1 is deleted only after n has
//     landed, another node's journal only once all of it is exported or stands in the
//     own landed journals.
//  4. Open, Offer, Emit, MayLeave, Cursor and Closed do no I/O and wait for none. They
//     share a lock that is held for microseconds; composing a journal holds it for about
//     a millisecond per ten thousand conversations of a shard.
//  5. Memory: waiting events up to MemoryBytes by [observability.Size], and beyond that
//     one batch for each caller of Offer and each reader; a group, and the room of the last
//     one; what each of the Readers reads ahead, up to 8 batches; live events up to LiveBytes
//     for each sink, and some 5 MiB of room for them; and less than 1 KiB for each
//     conversation that is open here or behind, with its ids.
//  6. A log that is damaged, or that this version panics over, holds up no other. It is
//     given up after some attempts, logged and counted; its events can be made again once
//     it is repaired. One that the bucket refuses or does not give keeps at most one of the
//     Readers waiting.
//
// An Exporter is safe for concurrent use. All its goroutines belong to [Exporter.Run].
//
// After a crash nothing is missing that guarantee 2 covers. What was not yet allowed to
// leave stands in the pending-work journal: whoever takes the conversation over announces by
// [Exporter.Open] what the checkpoint says is still to be shipped.
package export
