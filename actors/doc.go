// Package actors runs conversations: every conversation is a virtual actor that
// owns its log, on one node of a cluster. It implements the seams
// [conversation.Dispatcher] and [conversation.Reader] for the edges and calls
// agent, providers and storage.
//
//	edge ──Admit──▶ Runtime ──request──▶ activation ──input──▶ machine.Step
//	                                        ▲  │ effects: append, list, call model, run tool, reply
//	                                        └──┘ results come back as messages
//
// An activation is a thin shell over the pure machine in internal/machine. Its
// Receive never blocks: every effect runs in a goroutine and its result returns
// as a message to the activation's own PID. A PID is one activation; a result
// that outlives it reaches nobody.
//
// The effects have rooms of their own: internal/work calls models, tools and hooks,
// internal/history stores checkpoints and segments, internal/busy lists who is owed work
// and finds it when a node died, internal/events tells, internal/relay pushes to other
// nodes. Here are the edge, the activation, the opening of a log, and what joins them.
//
// A program that holds a Runtime needs no edge: [Runtime.Dispatch] sends,
// [Runtime.Wait] waits for the reply, [Runtime.Compact] shortens what the model is
// sent of a conversation.
//
// Guarantees:
//
//  1. An admission that returned a receipt is durable, its writer's claim is
//     verified and a landed pending-work journal lists it, so that it will reach exactly
//     one settlement, whatever dies and with or without further traffic.
//  2. A writer that lost an append stops for good. Its callers are repeated under
//     their admission key and decided anew by the next activation.
//  3. Instructions, tools and model calls run only for an attempt whose start is
//     durable and verified. What they do is at least once; what is recorded of it
//     is exactly once.
//  4. A reader is shown only what is durable. A read activates nothing.
//  5. A conversation that is durably idle, and no other, goes out of memory after
//     Options.UnloadAfter, or sooner if all that is idle has more than
//     Options.IdleBytes: what was used least recently goes first; or after a second while
//     half of Options.Memory is in use. What is kept of it is its writer's name and
//     position: the next activation here reads the log and goes on as that writer, without
//     a claim, if nobody has written since. At Options.ForgetAfter that is forgotten too.
//
// With [Options.Cluster] several nodes share the bucket. Any of them takes any request
// and asks the owner; the others' batches reach its readers by pushes, which are hints,
// and reads make sure where a log ends. [Runtime.HandOver] gives everything to the
// others in mid-turn.
//
// What happens is told as events of package observability: to EventOptions.Sinks through
// internal/export, which remembers in the bucket whose events are behind, and to
// EventOptions.Observers at once. Nothing waits for either.
//
// After a crash everything is in the bucket: the other nodes, or the next start, sweep
// the pending-work journals that the old incarnation left and activate whatever they list.
//
// A Runtime is safe for concurrent use. New starts no goroutine; everything Run
// starts has ended when it returns, except tools that ignore their context.
package actors
