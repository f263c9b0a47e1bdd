// Package membership keeps a node's row among the members of a bucket: it joins
// if no other node serves the bucket, keeps a heartbeat, notices when another node
// took its place, and leaves.
//
// Package actors calls it around everything else that a node does: Join before
// anything is served, Run as long as anything is, Leave at the end. It calls
// storage, which has the formats of the epochs and heartbeats.
//
// A bucket has one member today. A node that starts reads the newest epoch and
// looks at the heartbeat of whoever stands in it, for the time of suspicion. If
// one changes, its node lives and the start is refused. Otherwise the epoch is
// replaced by the next number, which holds the new node alone. Who is not the
// first to create that number starts over.
//
// Guarantees:
//
//  1. A node that starts replaces a member only after it saw no change of its
//     heartbeat for the time of suspicion, on its own monotonic clock, and then had
//     its own heartbeat stored at once: a bucket that takes no heartbeats makes
//     nobody dead. A pause of this process counts as one look, however long it was.
//  2. A heartbeat is stored before the epoch that names its node is sent, and goes
//     on while the fate of that epoch is open: of nodes that start at once, those
//     that lose see the winner live.
//  3. Join returns nil only if its epoch was the newest one after it was stored.
//  4. Run ends with a [*ReplacedError] only if the newest epoch lacks this node; a
//     bucket that does not answer is no reason.
//  5. The highest epoch is never deleted.
//
// All of this is about who should act. What is stored is safe without it: two
// nodes that both believe to be the member fence each other in the logs.
//
// A Membership belongs to one goroutine; New starts none, and what Join and Run
// start has ended when they return.
//
// After a crash the row stays. The next start finds it, waits for the time of
// suspicion and replaces it.
package membership
