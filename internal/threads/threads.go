// Package threads sets the number of threads of the programs of this module.
//
// Their main functions call [Spread] first.
package threads

import (
	"os"
	"runtime"
)

// smallMachine is the maximum number of processors of a small machine.
const smallMachine = 4

// threads returns GOMAXPROCS for a small machine: one and a half times the number of processors. The
// Go scheduler lets short work wait up to 10 ms behind long work on the same thread. Threads that wait
// for a processor are scheduled by the system, which prefers those that have run least. With twice as
// many threads, a single request took longer. It returns 0 if GOMAXPROCS or a container's CPU limit is
// set.
func threads(processors, allowed int, named string) int {
	if named != "" || allowed != processors || processors > smallMachine {
		return 0
	}
	return processors + max(1, processors/2)
}

// Spread applies the number to this process.
func Spread() {
	if n := threads(runtime.NumCPU(), runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS")); n > 0 {
		runtime.GOMAXPROCS(n)
	}
}
