// Package simtest runs seeded schedules against nodes over one bucket and checks
// what Parley promises: the safety of every log and every read, and that every
// acknowledged submission settles once the faults are over.
//
//	schedule(seed) ─▶ clients, readers ──Admit, Updates──▶ nodes (built by the caller)
//	             └──▶ crashes, pauses, views                 │ requests
//	                                                         ▼
//	                     ledger ◀──what landed, and when── network ──▶ store
//
// Tests of package actors call [Run] within a synctest bubble: all time is
// virtual, there is no socket, and the bucket is a RoundTripper in process. How a
// node is made is the caller's business; see [Options].
//
// What is checked:
//
//  1. Every admission that was acknowledged is in the final log, at exactly the
//     offset of its receipt and with its payload; one submission per key.
//  2. No submission settles twice, and no tool call starts twice.
//  3. The final log is contiguous and its chain fits. What a reader has seen of an
//     offset is what the final log shows there, without gap or repetition, and
//     what it reduced equals the snapshot.
//  4. A model call begins only for an attempt that is durable, under a writer
//     whose claim had nothing of another writer above it when it was acknowledged.
//     A tool runs only for a call that is durable.
//  5. An offset in a receipt can be read at once, at every node.
//  6. When faults and clients have ended and only time passes, every acknowledged
//     submission settles, no node lists or holds anything, and no journal of a
//     node that is gone is left.
//
// A seed decides what is asked of whom and when, which node fails and what happens
// to the n-th request of a node for a key. What remains to the scheduler of
// goroutines is the order of things due at the same nanosecond of virtual time:
// most seeds repeat to the last line of their trace, a few do not.
//
// Run starts goroutines and waits for all of them. Nothing survives it.
package simtest
