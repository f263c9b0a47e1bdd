// Package memory keeps what a node holds on behalf of others within a bound in bytes.
//
// A node has one [Budget]. Whatever grows with what clients, models and conversations do
// takes its bytes from an [Account] of it and gives them back: conversations, readers,
// request bodies, model calls, events that wait for a sink. New work asks first
// ([Account.Take]) and is refused while the node is full, so that its caller can be told
// to come back. Work that was accepted goes on ([Account.Add]), also beyond the bound,
// because ending it would lose more than it saves: the bounds of single responses,
// values and queues limit how far.
//
// Guarantees:
//  1. The sum of what was taken never exceeds the budget by [Account.Take], nor an
//     account its own share. The last quarter is taken by claims of up to 64 KiB alone.
//  2. What is given back is available at once. [Account.Wait] alone waits for memory: for work that was accepted
//     and may begin later. One claim of an account is always granted, so waiting never blocks all of them.
//  3. What is held only so that something comes sooner has a bound of its own, [Idle], and
//     what was not used for a second gives way while half of the budget is in use. Whoever
//     holds it, what was used least recently gives way first.
//  4. Work on large pieces takes turns ([Account.Turn]): the copies that it makes, which no
//     account counts, are those of half as many as there are processors.
//
// Bytes are what the holder says they are. They are estimates of live data, not of what
// the collector keeps: a budget is half of what the process may occupy.
//
// All types are safe for concurrent use, and their nil values bound nothing.
package memory
