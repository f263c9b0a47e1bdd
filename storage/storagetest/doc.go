// Package storagetest provides the shared parts of storage tests. [RunBucket] checks the rules of
// every bucket, and [RunLog] those of a log on it. Decorators of buckets inject the faults of a
// network ([Faulty]) or count requests ([Counter]); [Through] is their common base.
//
// Tests of storage, of its buckets and of the runtime use it. Behind internal/s3front a decorated
// bucket simulates a network for the tests of the S3 client.
//
// Guarantees:
//
//  1. The fault of a request depends only on the plan's seed, the method, the key and the
//     number of earlier requests of that method and key; the order of goroutines does not
//     change it.
//  2. No goroutine is started: a late write lands in the goroutine of a later request, or
//     of Release. So the package works in a synctest bubble.
//  3. An injected failure is an [*InjectedError], or a corresponding response.
//
// The decorators are safe for concurrent use.
package storagetest
