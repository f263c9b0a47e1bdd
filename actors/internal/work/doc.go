// Package work does what the machine of a conversation asks for outside of it: model calls,
// tools, hooks of authors, subagents, the author's state, summaries. Package actors has one
// [Node] for a node, and one [Runner] for each conversation in memory.
//
//	machine.Step ──effect──▶ Runner.Do ──view, copied──▶ goroutine ──▶ Options.Emit ──input──▶ machine.Step
//
// Guarantees:
//
//  1. What runs outside the actor's goroutine reads nothing of the conversation's state but
//     what was copied for it when it began.
//  2. What was cancelled emits nothing, but for data that wait in its feed, which the machine
//     ignores.
//  3. Whatever a model does, the last event of its call ends it; the author's functions may
//     ignore their context and hold up nobody but their own call.
//  4. What waits for the actor is bounded in bytes; a full feed holds the stream back.
//
// A Runner belongs to the actor's goroutine. After a crash nothing of it is left: what was
// recorded is in the log, and what was not is done again or reported as unknown.
package work
