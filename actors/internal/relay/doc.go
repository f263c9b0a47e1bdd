// Package relay sends batches from the nodes that write them to the followers on other nodes. Package
// actors runs one [Relay] on each node of a cluster.
//
// On a reader's node it keeps a subscription with the owner of every followed conversation. On an
// owner's node it pushes landed batches to the subscribers, in groups per node. The next group is sent
// when the previous one was answered, so that a slow node costs a bounded queue and then its
// subscriptions.
//
// Pushes are hints: lost batches are read from the bucket, so the relay needs no recovery after a
// crash. A Relay is safe for concurrent use; its goroutines end with Run.
package relay
