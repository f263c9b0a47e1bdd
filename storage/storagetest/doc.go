// Package storagetest holds what tests of storage share: the rules every bucket
// must keep ([RunBucket]), the rules the log keeps on it ([RunLog]), and decorators of
// buckets: one that injects the faults of a network ([Faulty]), one that counts
// ([Counter]), and what they and those of other tests are made of ([Through]).
//
// Tests of storage, of its buckets and of the runtime call it. Below internal/s3front a
// decorated bucket is a network, for the tests of the S3 client.
//
// Guarantees:
//
//  1. Which fault hits a request depends on the plan's seed, the method, the key
//     and how often that method was sent to that key; the order in which
//     goroutines run does not change it.
//  2. No goroutine is started: what lands late lands in the goroutine of a later
//     request, or of Release. So all of it works in a synctest bubble.
//  3. An injected failure is an [*InjectedError], or an answer that says so.
//
// The decorators are safe for concurrent use.
package storagetest
