// Package demo is a model that needs no vendor, no key and no network.
//
// cmd registers it, so that a first conversation, a tool call, an abort and a
// recovery can be seen offline; tests use it wherever a real vendor would do.
// It calls providers alone.
//
// The model reads the latest user message as a command:
//
//	help      lists the commands
//	time      calls the tool named time and repeats what it says
//	think     reasons before it answers
//	long N    counts to N, at most MaxLong
//	other     is repeated with its number of words
//
// Guarantees:
//
//  1. The same request gives the same events, ids and usage included. Nothing
//     depends on a clock or on chance; the pace alone takes time.
//  2. Every request is answered. If the last messages are a piece of an
//     interrupted answer, with or without a note that says so, the model goes
//     on: a count resumes behind the last number it reached. A note is a user
//     message that is one element: an advisory, or one whose type attribute
//     speaks of an interruption, a continuation or an abort.
//  3. Ending ctx ends the stream at once, also between two words.
//
// A Demo is safe for concurrent use and keeps nothing.
package demo
