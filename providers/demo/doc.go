// Package demo is an offline model without vendor, key or network.
//
// Commands register it to demonstrate conversations, tool calls, aborts and recovery offline. Tests
// use it in place of a vendor. The package uses providers only.
//
// The model reads the latest user message as a command:
//
//	help      lists the commands
//	time      calls the tool named time and repeats its result
//	think     reasons before it answers
//	long N    counts to N, at most MaxLong
//	other     is repeated with its number of words
//
// Guarantees:
//
//  1. The same request yields the same events, including ids and usage. Only the pace depends on time.
//  2. Every request is answered. If the last messages are a part of an interrupted answer, with or
//     without a note about it, the model continues: a count resumes after the last number. A note is a
//     user message that is one element: an advisory, or one whose type attribute mentions an
//     interruption, a continuation or an abort.
//  3. Ending ctx ends the stream at once, also between two words.
//
// A Demo is safe for concurrent use and keeps no state.
package demo
