// Package actors runs conversations. Each conversation is a virtual actor that owns its log, on one
// node of a cluster. The package implements [conversation.Dispatcher] and [conversation.Reader] for
// the edges and calls agent, providers and storage.
//
//	edge ──Admit──▶ Runtime ──request──▶ activation ──input──▶ machine.Step
//	                                        ▲  │ effects: append, list, call model, run tool, reply
//	                                        └──┘ results come back as messages
//
// An activation is a thin shell over the pure machine in internal/machine. Its Receive never blocks:
// every effect runs in a goroutine, and its result returns as a message to the activation's own PID. A
// PID belongs to one activation; a result that arrives after its end is dropped.
//
// Effects live in packages of their own. internal/work calls models, tools and hooks. internal/history
// stores checkpoints and segments. internal/pending lists pending work and recovers it after a crash.
// internal/events emits events, and internal/relay pushes batches to other nodes. This package has the
// edge, the activation, the opening of a log, and the wiring.
//
// A program that holds a Runtime needs no edge: [Runtime.Dispatch] sends a message, [Runtime.Wait]
// waits for the reply, and [Runtime.Compact] summarizes older parts of the prompt.
//
// Guarantees:
//
//  1. An admission that returned a receipt is durable, its writer's claim is verified, and a
//     pending-work journal lists it. It reaches exactly one settlement after any crash, with or
//     without further traffic.
//  2. A writer that lost an append stops permanently. Its callers retry with their admission key,
//     and the next activation decides.
//  3. Instructions, tools and model calls run only for an attempt whose start is durable and
//     verified. They run at least once; their results are recorded exactly once.
//  4. Readers see only durable records. A read activates nothing.
//  5. Only a durably idle conversation leaves memory: after Options.UnloadAfter, earlier in LRU
//     order if idle state exceeds Options.IdleBytes, or after one second while half of
//     Options.Memory is in use. The node keeps the name and position of its writer until
//     Options.EvictAfter. The next activation reads the log and continues as that writer, without
//     a claim, if no other writer has appended.
//
// With [Options.Cluster] several nodes share the bucket. Each takes any request and asks the owner.
// Batches of other nodes reach local readers by pushes, which are hints; reads verify where a log
// ends. [Runtime.HandOver] moves all conversations to the other nodes, also in mid-turn.
//
// Events of package observability go to EventOptions.Sinks through internal/export, which stores its
// cursors in the bucket, and to EventOptions.Observers at once. No conversation waits for either.
//
// After a crash the bucket holds everything. The other nodes, or the next start, sweep the
// pending-work journals of the old incarnation and activate the listed conversations.
//
// A Runtime is safe for concurrent use. New starts no goroutine. Everything that Run starts has ended
// when it returns, except tools that ignore their context.
package actors
