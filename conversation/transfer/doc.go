// Package transfer converts a conversation of another server into records, from a snapshot of the
// current protocol or from the events of the beta protocol. It does no I/O: the caller fetches the
// input and stores the result.
//
// Guarantees:
//
//  1. The records fold to the source: messages in order with their parts, ids of messages, submissions, calls and
//     attachments, and settlements in order. Of a data part with several writes the last value stays. If an exact
//     conversion is impossible, it fails and returns no records.
//  2. Records come in groups, each to be one batch. A submission is admitted and settled in the same group, so that no
//     node finds an unsettled submission and resumes it.
//  3. The same conversation makes the same records. One that has continued has further records after the same prefix.
//
// Facts that a server does not publish are lost: usage, times, author state, summaries, and the uid.
package transfer
