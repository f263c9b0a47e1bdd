// Package noderun runs real node processes and talks to them as clients do, for the system
// tests.
//
// The tests of internal/attackrun, internal/killrun, internal/clusterrun and
// internal/eventsrun call it, and those of the programs; nothing else may. What is broken
// when, and what must hold then, is theirs. Here is what they have in common: the [Place] of
// their data, the [Fleet] that starts each [Node] again, a [Client] and a [Reader] that check
// every answer by itself, the [Story] that a log tells, with which a reader's [Sight] is
// compared, the program's own look at a bucket with [Verify], and the [Notes] of what is wrong.
//
// Guarantees:
//
//  1. Whatever a node may not answer in any state is an error that [Broken] reports.
//     Any other error may be due to what was broken on purpose.
//  2. What a Reader has is without a gap, in order and each chunk once, and what came
//     again was the same.
//  3. A process of a Fleet that ends although nobody asked for it, or prints what it may not,
//     is noted.
//
// Everything is safe for concurrent use, except a Story. A Reader is
// used by one goroutine that follows, and by any that look at what it has. A goroutine waits
// for each node; [Fleet.Close] waits for those.
package noderun
