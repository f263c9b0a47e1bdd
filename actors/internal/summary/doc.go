// Package summary decides what of a conversation a summary stands for, and writes
// down what is to be summarized. Package actors asks a model for the summary itself
// and records it.
//
// Guarantees:
//
//  1. A cut never separates a call from its outcome: a model turn and the outcomes of
//     its calls are one unit, and so is a delivery.
//  2. What is kept is the newest units of about the tokens asked for, and at least
//     the last one. The delivery that is being answered is always kept.
//  3. The text never exceeds its bound: long outcomes are shortened, and what is
//     oldest is left out, each with a mark that says so.
//
// The package is pure and safe for concurrent use. Nothing of it survives a crash: a
// summary that was not recorded is made anew.
package summary
