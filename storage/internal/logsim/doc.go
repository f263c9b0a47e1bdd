// Package logsim runs seeded schedules of one log of package storage and checks the guarantees of a
// log: writers, compactors, sweepers and readers over one bucket with faults; see [Run]. The tests of
// package storage call it, with all rules of the log and, in a build with the tag mutants, with each
// rule disabled in turn.
//
//	schedule(seed) ─▶ writers, compactors, readers ── network ──▶ bucket
//	             └──▶ faults, pauses, damage             │
//	                   History, checks ◀── requests and answers
//
// New operations go to process.go, new faults to network.go, new checks to check.go; their counters go
// to run.go, and a forged history that the check detects to logsim_test.go. An event that never
// happens verifies nothing: [Lacking] lists such events.
//
// A seed determines its trace, to the nanosecond, on any number of cores and on any bucket.
//
// Run starts goroutines and waits for all of them. All time is virtual.
package logsim
