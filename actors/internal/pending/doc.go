// Package pending durably records the pending work of a node and recovers that of crashed nodes.
// Package actors lists its writers here and calls [Sweeper.EnterOpening] before it reads a log.
//
// A node's [Journal] is the set of its conversations with unsettled work. It is one object, rewritten
// whole under the next number by group commit. A [Sweeper] reads the journals of incarnations that are
// no longer members. It probes the owners of the listed conversations, which fence the old writers and
// continue the work. It deletes exactly the journals it has read once all entries are answered.
// [Quarantine] holds the quarantined conversations, because nodes crashed while they opened them, and
// the suspects. [Timers] resumes conversations that wait for a time.
//
// Guarantees, in addition to those of Journal:
//
//  1. An entry of another node's journal is removed only when the owner of its conversation has
//     answered, or when the conversation is quarantined. Entries answered in an earlier sweep are
//     not probed again.
//  2. A conversation opened for a sweep or a timer is in the journal before its log is read.
//  3. A conversation that a node crashed over is opened while nothing else is being opened. A crash
//     counts against it only if the node had no other work either.
//  4. A clean opening is durable: no crash before it counts again.
//
// All types are safe for concurrent use. After a crash other nodes, or the next start, sweep the
// journal in the bucket. State held only in memory is recomputed.
package pending
