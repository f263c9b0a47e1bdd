// Package stats makes answers of events: the figures of a time ([Summarize]) and the
// timeline of one submission as a tree ([Trace]). The command line calls it with the
// events of a file; package clickhouse answers the first with SQL, by the definitions
// of this package.
//
// Guarantees:
//
//  1. An event counts once, however often it comes: events are told apart by their ids.
//  2. The order of the events makes no difference, except for the last digits of costs.
//  3. Missing events make a part of an answer empty, never an error.
//
// Both functions are pure and keep nothing. They need memory for the events they were
// given: about 50 bytes for each that counts and 8 for each latency of Summarize, all
// events of the submission for Trace.
package stats
