// Package stats aggregates events: metrics of a period ([Summarize]) and the timeline of one
// submission as a tree ([Trace]). The command line calls it with the events of a file; package
// clickhouse implements Summarize in SQL, by the definitions of this package.
//
// Guarantees:
//
//  1. An event counts once: duplicates are recognized by id.
//  2. The order of the events has no effect, except on the last digits of costs.
//  3. Missing events make a part of a result empty, never an error.
//
// Both functions are pure and keep no state. Summarize needs about 50 bytes per counted event and 8
// per latency; Trace holds all events of the submission.
package stats
