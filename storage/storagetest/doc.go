// Package storagetest holds what tests of storage share: the rules every bucket
// must keep ([RunBucket]), the rules the log keeps on it ([RunLog]), a transport
// that injects the faults of a network ([Faulty]) and one that counts ([Counter]).
//
// Tests of storage, of its bucket and of the runtime call it. The transports wrap
// any http.RoundTripper and are put below storage/s3.
//
// Guarantees:
//
//  1. Which fault hits a request depends on the plan's seed, the method, the key
//     and how often that method was sent to that key; the order in which
//     goroutines run does not change it.
//  2. No goroutine is started: what lands late lands in the goroutine of a later
//     request, or of Release. So the transports work in a synctest bubble.
//  3. An injected failure is an [*InjectedError], or an answer that says so.
//
// The transports are safe for concurrent use.
package storagetest
