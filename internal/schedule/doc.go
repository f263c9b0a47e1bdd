// Package schedule is what seeded schedules have in common, be they of nodes
// (internal/chaos) or of one log (storage/internal/logsim): draws that depend on a seed
// alone, the fates of requests, and the trace that is told of a violation and counts what
// has happened, to show whether that was enough to prove anything. Runs of real processes
// that follow a seed count with it, too, and all read their lists of seeds by [Lines] and
// [Seeds].
//
// A trace, a counter and late requests are safe for concurrent use; dice are not. All time
// is that of the caller, who runs in a synctest bubble. Nothing here starts a goroutine
// but [Late.After], when the time has come; [Late.Stop] leaves none.
package schedule
