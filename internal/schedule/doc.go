// Package schedule provides the common parts of seeded schedules, of nodes (internal/chaos) and of one
// log (storage/internal/logsim). These are draws that depend only on a seed, faults of requests, and a
// trace. The trace is printed with a violation, and counts events to show whether the schedules
// covered enough. Seeded runs of real processes use the counts too, and all read their seeds with
// [Lines] and [Seeds].
//
// Traces, counters and late requests are safe for concurrent use; dice are not. All time is that of
// the caller, who runs in a synctest bubble. Only [Late.After] starts goroutines, when a request is
// due; [Late.Stop] leaves none.
package schedule
