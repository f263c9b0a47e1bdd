// Package relay brings batches from the nodes that write them to the followers of other
// nodes. Package actors runs one on each node of a cluster.
//
// As a reader's node it keeps a subscription with the owner of every conversation that
// somebody waits for here. As an owner's node it pushes what lands to the subscribers,
// in groups per node: the next one goes when the one before was answered, so that a
// slow node costs a bounded queue and then its subscriptions.
//
// All it does is a hint: what it loses is read from the bucket, so nothing rests on it
// after a crash. A Relay is safe for concurrent use; its goroutines end with Run.
package relay
