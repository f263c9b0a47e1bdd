// Package memory bounds the bytes that a node holds for clients, models and conversations.
//
// A node has one [Budget]. Every consumer whose size depends on clients, models or conversations
// reserves its bytes in an [Account]: conversations, readers, request bodies, model calls, events that
// wait for a sink. New work calls [Account.Take] and is rejected while the node is full, so that its
// caller can retry later. Accepted work calls [Account.Add] and continues beyond the limit, because
// aborting it would lose more than it frees. Limits of single responses, values and queues bound the
// excess.
//
// Guarantees:
//
//  1. Reservations by [Account.Take] never exceed the budget, nor an account its share. Only
//     claims of up to 64 KiB use the last quarter.
//  2. Released bytes are available at once. Only [Account.Wait] waits for memory, for
//     accepted work that may begin later. One claim of an account is always granted, so
//     waiting never blocks all of them.
//  3. Caches have a limit of their own, [Idle]. While half of the budget is in use, entries
//     unused for a second are evicted. Eviction is least recently used first, across holders.
//  4. Work on large data takes turns ([Account.Turn]): its temporary copies, which no account
//     counts, are limited to half as many as there are processors.
//
// Bytes are estimates of live data by the holder, not of the memory that the collector retains: a
// budget is half of the memory of the process.
//
// All types are safe for concurrent use, and their nil values impose no limit.
package memory
