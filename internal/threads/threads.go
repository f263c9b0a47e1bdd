// Package threads sets GOMAXPROCS for the programs of this module, for lower latency on small
// machines. Their main functions call [Spread] first.
package threads

import (
	"os"
	"runtime"
)

// smallMachine is the maximum number of logical CPUs of a small machine.
const smallMachine = 4

// threads returns GOMAXPROCS for a machine with cpus logical CPUs: one and a half times their number.
// It returns 0, no change, for larger machines. It also returns 0 if the environment sets GOMAXPROCS,
// or if the current value differs from cpus, as under a container's CPU limit.
//
// With one thread per CPU, the Go scheduler lets a short goroutine wait up to 10 ms behind a long one.
// With more threads than CPUs the operating system shares the CPUs, and it prefers the threads that
// have run least. With twice as many threads, a single request took longer.
func threads(cpus, current int, env string) int {
	if env != "" || current != cpus || cpus > smallMachine {
		return 0
	}
	return cpus + max(1, cpus/2)
}

// Spread sets GOMAXPROCS of this process to more than the number of CPUs if the machine is small. Call
// it once, first in main.
func Spread() {
	if n := threads(runtime.NumCPU(), runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS")); n > 0 {
		runtime.GOMAXPROCS(n)
	}
}
