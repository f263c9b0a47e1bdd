// Package sample says how much of a volume a test runs: all of it, or a sample where the
// race detector multiplies the time and the memory of everything.
//
// Whatever is run under the detector is there to show races, for which a few schedules
// say as much as many; what many schedules show is shown without it. Every test that asks
// for a sample is also run without the detector: make test finds them, see volumes. A quick
// run without the detector is content with samples too: go test -short.
//
// It holds no state, and all of it may be used by any goroutine.
package sample

import (
	"os"
	"runtime/debug"
	"slices"
)

// Raced reports whether this program has the race detector.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}

// Short is what go test -short tells a program of tests. Volumes are asked for before that
// has read its flags.
const Short = "-test.short=true"

// Of returns the whole volume, or the sample in a program with the race detector, and in one
// that runs with Short.
func Of[T any](whole, sample T) T {
	if Raced() || slices.Contains(os.Args, Short) {
		return sample
	}
	return whole
}
