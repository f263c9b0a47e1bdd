// Package transfer makes records of a conversation that another server has shown: from a
// snapshot of the current line, or from the events of the beta line. It does no I/O; who
// brings conversations over fetches what it reads and stores what it returns.
//
// Guarantees:
//
//  1. What is returned folds to what was shown: messages in order with their parts, one data
//     part per name with its last value, ids of messages, submissions, calls and attachments, and settlements in order. What cannot
//     be shown alike is refused, and nothing of it is returned.
//  2. Records come in groups, each to be one batch: what is admitted in a group is settled
//     in it, so that nobody ever finds half a submission and works on it again.
//  3. The same conversation makes the same records, and one that has gone on makes more:
//     those of before come first.
//
// What is not shown anywhere does not come over: usage, times, the state of authors,
// summaries, the uid.
package transfer
