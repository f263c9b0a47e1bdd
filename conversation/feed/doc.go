// Package feed projects a conversation's log into the event stream of the beta protocol, in v3 event
// shapes. It is independent of observability events and always includes full texts.
//
// A [Projector] folds batches in order and emits events. Their numbers are dense over the log, from 0,
// and continue over the incarnations of an address. Clients keep them as offsets, so a number must
// never refer to another event. Therefore the output of a version of the projection is fixed. A
// conversation has one version from its creation on, in [conversation.ConversationCreated]. [Version]
// is the only one so far; a projector rejects any other.
//
// Guarantees:
//
//  1. Events are a function of the log alone: no clock, no options. An event of a record
//     without a time has the time of the previous record.
//  2. A projector resumed from a [Mark] emits the same events as one that read the whole log.
//  3. The eventIndex of a submission's events counts from 0 without gaps, even if events of
//     others are interleaved. Requested compactions have an index of their own.
//
// Order of a prompt: operation_start, agent_start, turn_start, the user's message, the assistant's
// message with its deltas, tool_start and tool with the message of its result, turn_messages, turn,
// agent_end, operation, idle, submission_settled. message_end has the whole text; deltas are for live
// display. A withdrawn reply ends with an empty message_end.
//
// The log of a workflow run has its own kind of stream. It begins with run_start, which has the input.
// An attempt after a loss adds run_resume, and each recorded step adds a log event. Data shown by the
// function or its waits follows. run_end closes the stream, whatever records follow. Its eventIndex is
// the number of the event.
//
// A Projector is not safe for concurrent use. It does no I/O.
package feed
