// Package sinktest provides the conformance suite for sinks of observability events.
//
// Tests of sinks call Run with functions that create a sink over an empty store and read the store.
// The rules, each a subtest:
//
//	name                 the name has only lower-case letters
//	nothing              a Write of nothing stores nothing
//	everyType            all types survive with every optional field, and without any
//	order                durable events of a conversation come back in their order
//	again                events that are written again are stored once, in any groups
//	cancelled            a Write whose context has ended fails; later ones succeed
//	callersSlice         the caller owns the slice after a Write; the events are unchanged
//	large                a text of a MiB survives, ASCII or not
//	text                 text of any script survives, invalid UTF-8 as U+FFFD
//	many                 10,000 events in one Write are stored, or Options.Many
//	concurrent           two sinks over one store do not lose each other's events
//
// Sample returns one event of every type with every field set, for other tests too. No rule depends on
// time.
package sinktest
