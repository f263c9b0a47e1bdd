// Package machine is the pure state machine of one conversation activation:
// admission, the queue, attempts, the model and tool loop, settlement, group
// commit with pacing, and recovery.
//
//	Step(env, input) → effects
//
// It is called by the conversation actor in package actors, which performs the
// effects and feeds their results back as inputs. Nothing in here does I/O,
// reads a clock, starts a goroutine or draws randomness: the same inputs give the
// same effects, which the transcripts in testdata show step by step.
//
// Guarantees:
//
//  1. One append is in flight at a time; records queue behind it and leave
//     together in the next one, or, if they are more than one batch takes, in several.
//     What belongs together stands in one batch. One that was sent is never changed.
//  2. Every reply, also a refusal, waits until the records it rests on are
//     durable. An admission of unsettled work, and a compaction that was asked for, wait
//     also until a landed journal lists this writer; one that is refused for what the log lacks, and an abort
//     that finds nothing, until the bucket has shown that the log ends here.
//  3. Author code and model calls begin only after attempt_started is durable;
//     a tool only after its call is.
//  4. Control records never wait for the pace; streamed text does.
//  5. Every admitted submission settles exactly once: a settlement is decided on
//     the state and the state refuses a second one.
//  6. After a lost append the machine is stopped: everybody waiting is told that
//     the outcome is unknown, and no further append is asked for.
//  7. A machine that passivates owes nothing: all that it wrote is durable and
//     settled, and told to who waits for it, or waits for a time and a stored timer says so; nothing is in flight and
//     no journal need list its writer. Another one may go on as that writer, without a
//     claim, if nobody has written since.
//  8. A submission whose calls all wait for a time is parked: its attempt ends without
//     being counted, and the next begins when the time has come by the wall clock of the
//     step, never before. Its timer is stored before a journal may forget it, and is
//     deleted only when what it belongs to is over in the durable log.
//
// A Machine is owned by one goroutine. It panics only on a broken invariant of
// its own; the activation then ends and the next one recovers from the log.
package machine
