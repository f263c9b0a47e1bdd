// Package feed is the event stream of a conversation as clients of the beta line know it: a
// projection of its own from the log, in v3 event shapes, with all that was said whole,
// whatever is kept elsewhere of observability events.
//
// A [Projector] folds batches in order and emits events. Their numbers are dense over the
// log, from 0, and go on over the lives of an address. They are offsets that clients keep,
// so a number never comes to mean another event: what a version of the projection makes of
// a log is fixed. A conversation has one version from its creation on, which
// [conversation.ConversationCreated] names; [Version] is the only one so far, and a
// projector refuses any other.
//
// Guarantees:
//
//  1. Events are a function of the log alone: no clock, no options. Where a record has no
//     time an event has that of the record before it.
//  2. A projector that goes on from a [Mark] emits what one emits that began with the log.
//  3. Of one submission the first event has eventIndex 0, the next 1, whatever comes between.
//     Compactions that somebody asked for count for themselves.
//
// Order of a prompt: operation_start, agent_start, turn_start, the user's message, the
// assistant's message with its deltas, tool_start and tool with the message of its result,
// turn_messages, turn, agent_end, operation, idle, submission_settled. Whole text stands in
// message_end; deltas are there for those who watch. A withdrawn reply ends with an empty
// message_end.
//
// The log of a run of a workflow is a stream of its own kind: run_start with the input, run_resume
// where an attempt begins after a loss, a log event for each recorded step, the data that the
// function or its waits show, and run_end, after which nothing comes, whatever the log still gets.
// Its eventIndex is the number of the event.
//
// A Projector belongs to one goroutine at a time. It does no I/O.
package feed
