// Package chaos runs seeded schedules against nodes over one bucket and checks
// what Parley promises: the safety of every log and every read, and that every
// acknowledged submission settles once the faults are over.
//
//	schedule(seed) ─▶ clients, aborters, readers ─────────▶ nodes (built by the caller)
//	             └──▶ crashes, drains, pauses, views           │ requests
//	             └──▶ outages, damage to shortcuts             ▼
//	                     ledger ◀──what landed, and when── network ──▶ store
//
// Tests of package actors call [Run] within a synctest bubble: all time is
// virtual, there is no socket, and the bucket is in this process. How a
// node is made is the caller's business; see [Options]. Later harnesses extend this
// one: a new thing to ask goes to client.go, what answers it to author.go or model.go, a
// new fault to disturb.go or network.go, a new promise to check.go, work.go or replies.go;
// what it counts goes to run.go, and a forgery that it notices to check_test.go.
//
// What is checked:
//
//  1. Every admission that was acknowledged is in the final log, at exactly the
//     offset of its receipt, with its payload, attachments and incarnation; one
//     submission per key, one receipt. Only what does not fit is refused.
//  2. No submission settles twice, and no tool call starts twice. What a complete
//     step says, what a tool returns and what hooks add to the metadata is recorded
//     once; data is recorded once for each write, before the outcome of its call,
//     and that of a hook at least once. A submission fails only with a reason.
//  3. The final log is contiguous and its chain fits. What a reader has seen of an
//     offset is what the final log shows there, without gap or repetition, also when
//     it resumes from an earlier offset at another node; what it reduced, and every
//     snapshot taken meanwhile, equals the fold of the log. A read that its caller
//     leaves ends at that moment.
//  4. A model call begins only for an attempt that is durable, under a writer
//     whose claim had nothing of another writer above it when it was acknowledged.
//     A tool runs only for a call that is durable.
//  5. An offset in a receipt can be read at once, at every node.
//  6. When an abort is granted, all that was owed when it was asked for has ended.
//     What an abort covers settles as aborted with it, and nothing else does. One that
//     finds nothing is right: at some place since it was asked for the log owed nothing.
//  7. Damage to heads, checkpoints and pages of history changes nothing of this.
//  8. When faults and clients have ended and only time passes, every acknowledged
//     submission settles, no node lists or holds anything, and no journal of a
//     node that is gone is left. Nodes then know keys, incarnation and attachments.
//  9. A signal that was acknowledged has ended a wait, which its call has heard, or is kept,
//     and no second one is for the same name; one that was refused as late was late.
//  10. A conversation whose opening crashes every process is quarantined after some crashes, and no
//     other is; repaired and put back, it settles like them.
//  11. A dispatched submission has joined its tree before it is admitted, and settles once. A tree counts no more
//     submissions than it may, and what their model calls cost, but for a last one that a crash leaves out. One that an
//     abort has closed takes no members; once that is answered, what it owed has ended, and no model is called for it.
//
// What never happens proves nothing: a [schedule.Shown] says what did, and
// [Profile.Lacking] what is lacking. A [Profile] decides what a schedule is about.
//
// A seed has one trace, to the nanosecond, on any number of cores: it decides what is
// asked of whom and when, which node fails, and what happens to the n-th request that
// a node makes for a key on somebody's behalf. The scheduler of goroutines decides
// only what happens at one nanosecond, so that nothing may which could tell; network.go
// says how. A schedule asks of its nodes that they are as good: no randomness but that
// of [Site], and nothing that depends on the order of a map.
//
// What it has in common with the schedules of one log, which are in storage/internal/logsim,
// is in internal/schedule.
//
// Run starts goroutines and waits for all of them. Nothing survives it.
package chaos
