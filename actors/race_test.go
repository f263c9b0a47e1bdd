//go:build race

package actors_test

const longTurnsOfMemory = 12
