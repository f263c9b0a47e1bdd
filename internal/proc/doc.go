// Package proc runs other programs as processes of their own, and builds those of this
// module.
//
// Suites of real processes call it, and the bench: a [Reaper] starts each [Process], which
// its owner awaits, signals, stops or kills. A test calls [Program] for a program of the
// module, which all tests that want the same one share; [Isolated] runs a test alone, in a
// process of its own. [UsageOf] says what a process has used. What a program is told and what
// it may answer is its caller's; nothing here knows the product.
//
// Guarantees:
//
//  1. A process ends before [Reaper.Close] of the reaper that started it returns, and a
//     folder of [Reaper.TempDir] goes. So they do when the owner ends in any other way.
//  2. The id of a process is the program's own: what /proc says of it and what it is sent
//     is the program's, and not that of a process between.
//  3. Signals go to what was started here alone, and to nobody once it was waited for.
//  4. [Process.Flaw] is empty only for an end that was asked for: by SIGKILL, or with
//     exit 0 after SIGTERM, whatever else was sent.
//  5. Programs are built one after the other into the folder bin/built of the module. One
//     that is up to date is left as it is, so that it may run meanwhile.
//
// Everything is safe for concurrent use. One goroutine waits for each process; the reaper
// waits for those.
//
// After a crash of the owner another process kills what is left and removes the folders. It
// was told the id of each process by that process itself, before that became the program.
package proc
