//go:build !race

package actors_test

// longTurnsOfMemory is how many turns of 1 MiB the history of a long log has in tests of
// memory. The race detector multiplies what a process takes, and its time: there the tests
// look at little more than what happens.
const longTurnsOfMemory = 96

// detectorBytes is what a process may take beside that, for the race detector.
const detectorBytes = 0
