// Package model explores small models of the agreement between nodes exhaustively: [Explore] visits
// every world reachable from the first, and finds the shortest path to an invalid one. Its tests hold
// the models of waits and signals, of replies across two logs, and of posts. Each rule of
// docs/waits.md can be disabled there, and the exploration detects it. A model of suspects does the
// same for the rules of quarantine in docs/durability.md.
//
// With -paths the tests print the shortest path to the effect of each missing rule. With -deep they
// explore more faults, for minutes.
//
// A world is a small comparable value. Each model lists its omissions.
//
// Explore is a pure function: no goroutine, clock, randomness or state.
package model
