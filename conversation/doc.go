// Package conversation defines the data model of a durable agent conversation: its records, their
// encodings, and the pure functions that derive state and chunks from a log of records.
//
// A conversation is a log of batches. A batch is a list of [Record] values under one [Offset]; a
// record is an immutable fact. Everything else is derived:
//
//	records ──fold──▶ State ──Snapshot──▶ response of GET /:id
//	one batch ──Project──▶ []Chunk        response of GET /:id?view=updates
//
// Every layer above imports the package. It imports only the standard library. It performs no I/O,
// reads no clock and uses no randomness.
//
// Guarantees:
//
//  1. The offset of batch n is n. A read at offset n returns what was recorded after batch n;
//     [Start] (-1) is before batch 0.
//  2. Chunks are a pure function of one batch. The exception are the conversation-reset chunks of a
//     compaction or of a withdrawn turn, which need the state at their batch.
//  3. For every k ≤ n: the snapshot at k, reduced with the chunks of batches k+1..n, equals the
//     snapshot at n. Tested over random histories.
//  4. A record line of an unknown type is kept as [Unknown], unless it has "must": then decoding
//     rejects the batch.
//  5. Folding a record that cannot follow from the state returns an [*InvariantError]. The state is
//     invalid afterwards.
//
// Values are not safe for concurrent mutation. Decoded batches and projected chunks are never changed
// after they are made and may be shared freely.
//
// The package also defines the interfaces between edges and runtime: [Dispatcher] for writes and
// [Reader] for reads. An edge such as package http depends only on them.
package conversation
