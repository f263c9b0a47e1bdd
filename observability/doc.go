// Package observability defines events: typed facts about conversations for analysts and operators.
// Package actors emits events, and sinks store them.
//
// Durable events are a pure function of one batch of the log, see [Project]. After a crash they are
// produced again, identical to the byte, id included, so that a sink can deduplicate them. Live events
// (deltas, requests, messages, logs) are best effort: they are dropped and counted when no sink
// accepts them in time.
package observability
