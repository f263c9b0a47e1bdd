//go:build race

package actors_test

const longTurnsOfMemory = 12

const detectorBytes = 128 << 20
