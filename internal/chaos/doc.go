// Package chaos runs seeded schedules of clients and faults against nodes over one bucket. It checks
// the promises of Parley: every log and every read is safe, and every acknowledged submission settles
// once the faults are over.
//
//	schedule(seed) ─▶ clients, aborters, readers ─────────▶ nodes (built by the caller)
//	             └──▶ crashes, drains, pauses, views           │ requests
//	             └──▶ outages, corrupt caches                  ▼
//	                     ledger ◀──landed batches, in order── network ──▶ store
//
// Tests of package actors call [Run] within a synctest bubble: all time is virtual, there is no
// socket, and the bucket is in this process. The caller builds the nodes; see [Options].
//
// To extend the harness:
//
//   - client.go holds the requests, author.go and model.go their answers.
//   - disturb.go and network.go hold the faults.
//   - check.go, work.go and replies.go hold the checks.
//   - run.go holds the required counts, and check_test.go the forged logs that the checks must reject.
//
// Checks:
//
//  1. Every acknowledged admission is in the final log, at exactly the
//     offset of its receipt, with its payload, attachments and incarnation; one
//     submission per key, one receipt. Only a conflicting admission is refused.
//  2. No submission settles twice, and no tool call starts twice. The text of a complete
//     step, the result of a tool and the metadata of hooks are recorded
//     once. Data is recorded once for each write, before the outcome of its call;
//     data of a hook at least once. A submission fails only with a reason.
//  3. The final log is contiguous and its chain is valid. A reader sees exactly the final log,
//     without gap or repetition, also when
//     it resumes from an earlier offset at another node. Its reduced state and every
//     snapshot equal the fold of the log. A cancelled read ends at that moment.
//  4. A model call begins only for a durable attempt, under a writer
//     whose claim had no batch of another writer above it when it was acknowledged.
//     A tool runs only for a durable call.
//  5. An offset in a receipt can be read at once, at every node.
//  6. When an abort is granted, all submissions unsettled at the request have ended.
//     The submissions it covers settle as aborted with it, and no others do. An abort may find
//     nothing only if at some place since the request the log had no unsettled submission.
//  7. Corrupt heads, checkpoints and pages of history change nothing of this.
//  8. When faults and clients have ended and only time passes, every acknowledged
//     submission settles, no node lists or holds anything, and no journal of a
//     crashed node is left. Nodes then know keys, incarnation and attachments.
//  9. An acknowledged signal has ended a wait, with its value delivered to the call, or is kept,
//     and no second one is for the same name. A signal refused as late was late.
//  10. A conversation whose opening crashes every process is quarantined after some crashes, and no
//     other is. Repaired and put back, it settles like the others.
//  11. A dispatched submission has joined its tree before it is admitted, and settles once. A tree stays
//     within its submission limit and counts the cost of model calls, except a last call lost in a crash. A tree closed
//     by an abort takes no members. Once the abort is answered, its members have ended and call no model.
//
// A [schedule.Counts] counts the events of a schedule, because a fault that never occurs verifies
// nothing. [Profile.Lacking] names the events that are too rare. A [Profile] selects the requests and
// faults of a schedule.
//
// A seed has one trace, to the nanosecond, on any number of cores. It decides every request and its
// time, every fault, and the outcome of the n-th request that a node makes for a key on behalf of a
// caller. The goroutine scheduler decides only the order within one nanosecond; network.go ensures
// that this order has no effect. Nodes must be equally deterministic: no randomness except that of
// [Site], and no dependence on the order of a map.
//
// Package internal/schedule holds the parts shared with the schedules of one log in
// storage/internal/logsim.
//
// Run starts goroutines and waits for all of them before it returns.
package chaos
