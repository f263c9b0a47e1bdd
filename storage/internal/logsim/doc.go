// Package logsim runs seeded schedules of one log of package storage alone: writers,
// compactors, sweepers and readers over one bucket, under faults, and checks what a log
// promises; see [Run]. The tests of package storage call it, with every rule of the log in
// force and, in a build with the tag mutants, with one switched off after the other.
//
//	schedule(seed) ─▶ writers, compactors, readers ── network ──▶ bucket
//	             └──▶ faults, pauses, damage             │
//	                   History, checks ◀──what was asked and answered
//
// A new thing to do goes to process.go, a new fault to network.go, a new promise to check.go;
// what it counts goes to run.go, and a forgery that it notices to logsim_test.go. What never happens proves nothing: [Lacking] says what did not.
//
// A seed has one trace, to the nanosecond, on any number of cores and on any bucket.
//
// Run starts goroutines and waits for all of them. Nothing survives it, and all time is
// virtual.
package logsim
