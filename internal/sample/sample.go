// Package sample selects the volume of a test: all of it, or a sample under the race detector, which
// multiplies time and memory.
//
// Runs under the detector only look for races, and a few schedules suffice for that. Every test with a
// sample also runs without the detector: make test finds them, see volumes. Quick runs with go test
// -short use samples, too.
//
// The package holds no state and is safe for concurrent use.
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

// Short is the argument that go test -short passes to a test program. Volumes are requested before
// that has parsed its flags.
const Short = "-test.short=true"

// Of returns whole, or sample in a program with the race detector or one that runs with Short.
func Of[T any](whole, sample T) T {
	if Raced() || slices.Contains(os.Args, Short) {
		return sample
	}
	return whole
}
