// Package pending keeps what a node owes, durably, and finds what others owed that died. Package
// actors lists its writers here and asks before it reads a log.
//
// A node's [Journal] is the set of its conversations with unsettled work, an object that is
// rewritten whole under the next number by group commit. A [Sweeper] reads the journals of
// incarnations that are no members any more, has the owners of what they list fence their
// writers and go on, and deletes exactly what it has read once all of it is answered.
// [Quarantine] are the quarantined conversations, because nodes crashed while they opened them,
// and the suspects among the others. [Timers] are what waits for a time.
//
// Guarantees, beside those of Journal:
//
//  1. An entry of another's journal goes only when the owner of its conversation has
//     answered, or when the conversation is quarantined. What an earlier sweep has had answered
//     is not asked again.
//  2. What a sweep or a timer has opened stands in the journal before its log is read.
//  3. A conversation that a node crashed over is opened while nothing else is being opened. A
//     crash counts against it only if nothing else was worked on either.
//  4. A clean opening is durable: no crash before it counts again.
//
// All types are safe for concurrent use. After a crash the journal in the bucket is what
// other nodes, or the next start, sweep; what is only remembered is found again.
package pending
