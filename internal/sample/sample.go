// Package sample says how much of a volume a test runs: all of it, or a sample where the
// race detector multiplies the time and the memory of everything.
//
// Whatever is run under the detector is there to show races, for which a few schedules
// say as much as many; what many schedules show is shown without it. Every test that asks
// for a sample is also run without the detector: make test finds them, see volumes. A quick
// run without the detector is told to be content with samples by PARLEY_TEST_SAMPLES.
//
// It holds no state, and all of it may be used by any goroutine.
package sample

import (
	"os"
	"runtime/debug"
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

// Of returns the whole volume, or the sample in a program with the race detector, and where
// PARLEY_TEST_SAMPLES is set.
func Of[T any](whole, sample T) T {
	if Raced() || os.Getenv("PARLEY_TEST_SAMPLES") != "" {
		return sample
	}
	return whole
}
