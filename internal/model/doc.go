// Package model explores small models of what nodes agree on, exhaustively: [Explore] visits
// every world that can be reached from the first, and finds the shortest way to one that must
// not be. Its tests hold the models of waits and signals, of replies across two logs, and of
// posts; each rule of docs/waits.md can be switched off there, and the exploration notices. A model
// of suspects does the same for the rules of quarantine in docs/durability.md.
//
// With -paths behind them the tests print the shortest way to what each missing rule costs,
// with -deep they go on under more faults, for minutes.
//
// A world is a small comparable value. What a model leaves out is said where it begins.
//
// Explore is a pure function: no goroutine, clock or randomness, nothing is kept.
package model
