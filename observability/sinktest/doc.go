// Package sinktest holds the suite that every sink of observability events passes.
//
// Tests of sinks call Run with a way to make a sink over an empty store and to read the
// store back. The rules, each a subtest:
//
//	name                 the name has lower-case letters alone
//	nothing              a Write of nothing stores nothing
//	everyType            all types survive with every optional field, and without any
//	order                durable events of a conversation come back in their order
//	again                what is written again is stored once, in whatever groups it comes
//	cancelled            a Write whose context has ended fails; later ones are not harmed
//	callersSlice         the slice is the caller's after a Write, the events are unchanged
//	large                a text of a MiB survives, ASCII or not
//	text                 text of any script survives, invalid UTF-8 as U+FFFD
//	many                 10,000 events in one Write are stored, or Options.Many
//	concurrent           two sinks over one store lose nothing of each other
//
// Sample has one event of every type with every field set, for other tests too. Nothing
// here depends on time.
package sinktest
