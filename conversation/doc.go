// Package conversation is the ground every other package stands on: the nouns
// of a durable agent conversation, their encodings, and the pure functions that
// turn a log of records into what clients see.
//
// A conversation is a log of batches. A batch is a list of [Record] values under
// one [Offset]; a record is an immutable fact. Everything else is derived:
//
//	records ──fold──▶ State ──Snapshot──▶ what GET /:id answers
//	one batch ──Project──▶ []Chunk        what GET /:id?view=updates answers
//
// The package is called by every layer above it. It imports only the standard
// library and performs no I/O; it reads no clock and draws no randomness.
//
// Guarantees:
//
//  1. The offset of batch n is n. A read at offset n returns what was recorded
//     after batch n; [Start] (-1) is before batch 0.
//  2. Chunks are a pure function of one batch, except that conversation-reset
//     chunks of a compaction or of a withdrawn turn need the state at their batch.
//  3. For every k ≤ n: the snapshot at k, reduced with the chunks of batches
//     k+1..n, equals the snapshot at n. Tested over random histories.
//  4. A record line of a type this version does not know is kept as [Unknown]
//     unless the line says "must": then decoding refuses the batch instead of
//     guessing.
//  5. Folding a record that cannot follow from the state is an
//     [*InvariantError]; the state is then not to be used any more.
//
// Values are not safe for concurrent mutation; decoded batches and projected
// chunks are never changed after they are made and may be shared freely.
//
// The package also holds the two seams between edges and runtime, [Dispatcher]
// (writes) and [Reader] (reads): an edge such as package http knows only them.
package conversation
