// Package machine is the pure state machine of one conversation activation: admission, the queue,
// attempts, the model and tool loop, settlement, group commit with pacing, and recovery.
//
//	Step(env, input) → effects
//
// The conversation actor in package actors calls Step, performs the effects and feeds their results
// back as inputs. The package does no I/O, reads no clock, starts no goroutine and draws no
// randomness. The same inputs give the same effects; the transcripts in testdata show them step by
// step.
//
// Guarantees:
//
//  1. One append is in flight at a time. Records queue behind it and leave together in the next batch, or in several if they
//     exceed one. Records of one group share a batch. A batch that was sent never changes.
//  2. Every reply, including a refusal, waits until the records it depends on are durable. An admission of unsettled work, and
//     a requested compaction, also wait until a landed journal lists this writer. A refusal for a missing condition, and an
//     abort without effect, wait until the bucket confirms the tail of the log.
//  3. Author code and model calls start only after attempt_started is durable; a tool only after its call is.
//  4. Control records never wait for the pace; streamed text does.
//  5. Every admitted submission settles exactly once: a settlement is decided on the state, and the state refuses a second.
//  6. After a lost append the machine is stopped. All waiting callers get an unknown outcome, and no further append starts.
//  7. A machine that passivates has no pending work of its own. Everything it wrote is durable, settled and reported, or
//     waits for a stored timer. Nothing is in flight and no journal need list its writer. Another machine may continue as
//     that writer without a claim, if no other writer has appended since.
//  8. A submission whose calls all wait for a time is suspended. Its attempt ends without being counted, and the next one
//     starts when the wall clock of a step reaches that time, never before. The timer is stored before the journal may
//     drop the writer, and is deleted only when its submission is over in the durable log.
//
// A Machine is owned by one goroutine. It panics only on a broken invariant of its own. The activation
// then ends and the next one recovers from the log.
package machine
