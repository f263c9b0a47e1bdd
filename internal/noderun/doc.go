// Package noderun starts real node processes and talks to them as clients do, for the
// system tests.
//
// The tests of internal/attackrun, internal/killrun, internal/clusterrun and
// internal/eventsrun call it; nothing else may. What is broken when, and what must hold
// then, is theirs. Here is what they have in common: a [Process] that no test leaves
// behind, a [Client] and a [Reader] that check every answer by itself, the [Projection]
// of a log that a reader's [Sight] is compared with, and what [Verified] makes of the
// program's own look at a bucket.
//
// Guarantees:
//
//  1. A process ends before the test is over whose [Reaper] started it. It ends as well
//     when the process of the test ends in any other way.
//  2. Signals go to what was started here alone, and to nobody once it was waited for.
//  3. [Process.Flaw] is empty only for an end that was asked for: by SIGKILL, or with
//     exit 0 after SIGTERM, whatever else was sent.
//  4. Whatever a node may not answer in any state is an error that [Broken] reports.
//     Any other error may be due to what was broken on purpose.
//  5. What a Reader has is without a gap, in order and each chunk once, and what came
//     again was the same.
//
// Everything is safe for concurrent use, except a Projection. One goroutine waits for
// each process; the reaper waits for those. A Reader is used by one goroutine that
// follows, and by any that look at what it has.
//
// After a crash of the test process another one kills what is left. It was told the id
// of each process by that process itself, before that became the program.
package noderun
