// Package threads says on how many threads at once a program of this module runs.
//
// The main functions of the programs call [Spread], before anything else.
package threads

import (
	"os"
	"runtime"
)

// smallMachine is up to how many processors a machine is small.
const smallMachine = 4

// threads is on how many threads at once the program runs on a small machine: half as many
// more as it has processors. The language lets short work wait for up to 10 ms behind each
// piece of long work on the same thread; threads that wait for a processor are the system's
// to choose from, which takes those first that have run least. With twice as many, a request
// that is alone took longer. It returns 0 where somebody has chosen otherwise: by GOMAXPROCS,
// or by a container's share of the processors.
func threads(processors, allowed int, named string) int {
	if named != "" || allowed != processors || processors > smallMachine {
		return 0
	}
	return processors + max(1, processors/2)
}

// Spread applies that to this process.
func Spread() {
	if n := threads(runtime.NumCPU(), runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS")); n > 0 {
		runtime.GOMAXPROCS(n)
	}
}
