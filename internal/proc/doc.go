// Package proc runs other programs as child processes, and builds those of this module.
//
// Process tests and the benchmarks call it. A [Reaper] starts each [Process]; its owner waits for it,
// signals it, stops it or kills it. A test calls [Program] for a program of the module, which all
// tests with the same settings share. [Isolated] runs a test alone in its own process. [UsageOf]
// returns the resource usage of a process. The package knows nothing of the product.
//
// Guarantees:
//
//  1. A process ends before [Reaper.Close] of its reaper returns, and a folder of
//     [Reaper.TempDir] is removed. The same holds if the owner ends in any other way.
//  2. The id of a process is the program's own, not that of an intermediate process, for
//     /proc and for signals.
//  3. Signals go only to processes started here, and to none after it was waited for.
//  4. [Process.Flaw] is empty only for a requested end: by SIGKILL, or with exit 0 after
//     SIGTERM, whatever else was sent.
//  5. Programs are built one at a time into the folder bin/built of the module. An
//     up-to-date file is not replaced, so that it may be running.
//
// All types are safe for concurrent use. One goroutine waits for each process; the reaper waits for
// those.
//
// After a crash of the owner another process kills the remaining processes and removes the folders.
// Each process reports its id to that process itself, before it executes the program.
package proc
