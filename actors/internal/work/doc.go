// Package work performs the effects of a conversation's machine that call foreign code: model calls,
// tools, author hooks, subagents, author state and summaries. Package actors has one [Node] for each
// node and one [Runner] for each conversation in memory.
//
//	machine.Step ──effect──▶ Runner.Do ──view, copied──▶ goroutine ──▶ Options.Emit ──input──▶ machine.Step
//
// Guarantees:
//
//  1. Code outside the actor's goroutine reads only a copy of the conversation's state, made at its start.
//  2. Cancelled work emits nothing except data in its feed, which the machine ignores.
//  3. The last event of a model call always ends it. An author's function that ignores its context delays only its own call.
//  4. Data queued for the actor is bounded in bytes. A full feed holds the stream back.
//
// A Runner belongs to the actor's goroutine. Nothing of it survives a crash: recorded results are in
// the log, and other work is repeated or reported as unknown.
package work
