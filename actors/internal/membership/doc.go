// Package membership maintains a node's row among the members of a bucket. It joins, sends heartbeats,
// confirms the row, publishes views of the members, expels crashed members, and leaves.
//
// Package actors calls Join before it serves anything, Run while it serves, and Leave at the end. The
// package uses the epoch and heartbeat formats of package storage.
//
// The members are the rows of the newest epoch. To add, change or remove a row, a node creates the
// epoch with the next number. Of concurrent creators only one succeeds; the others read the newest
// epoch and decide again. Nodes with a node address share the bucket. A node without one serves it
// alone.
//
// Guarantees:
//
//  1. A row is removed by its own node, or by a newer incarnation at the same node address. Any
//     other node removes it only after its heartbeat did not change for Suspect, on the monotonic
//     clock of the observing node. A pause of that process counts as one check, however long it was.
//  2. Only a node that stored all its own heartbeats in that time expels a member. It also stored
//     another one just before, saw no change after it, and is not passive. So a bucket that accepts
//     no requests causes no expulsion. A failed check restarts the time.
//  3. A node that serves alone, or finds one that does, also waits for that time before it replaces
//     a row. Its own heartbeat must have been stored at the first attempt. A changing heartbeat
//     ends its Join with an [*AliveError].
//  4. A heartbeat is stored before the epoch that names its node is sent. Heartbeats continue until
//     Join and Run have ended.
//  5. Join returns nil only after the newest epoch contained the row.
//  6. Run ends with a [*ReplacedError] only if the newest epoch lacks the row, and with a
//     [*GoneError] only if the epochs were deleted. An unavailable bucket never ends it.
//  7. A node is passive before it is expelled, see below.
//  8. Publish receives complete epochs with the own row, by rising number, one at a time.
//  9. The highest epoch is never deleted.
//  10. With Options.Reached a row enters with weight 0 if other members have a weight. It gets its
//     weight once more than half of those answer this node. It loses the weight on two conditions.
//     More than half of all members have not answered for Suspect. One of them has a live
//     heartbeat, reaches more members than this node, and does not reach this node. It gets the
//     weight back after most members with a weight have answered for Suspect.
//
// Every node checks the 3 members after it in the order of their IDs. If all observers of a crashed
// node crash with it, it moves up as they are expelled, and is detected then.
//
// A node whose row is unconfirmed for Suspect stops its heartbeat until the row is confirmed. The node
// is passive. With a heartbeat it would keep a share that no node serves.
//
// Proof of 7: the own row is confirmed when a request that began at c shows it in the newest epoch,
// and the heartbeat by a stored one that was sent at b. A node is passive from min(b, c) + Fence on,
// computed at every call, also after a pause of its process. Observers decide by checks with a pause
// of Heartbeat/2 or more between them, that span at least Suspect and show the same heartbeat. So no
// stored heartbeat was sent after the first check f, b < f, and the decision comes after f + Suspect.
// [New] requires Fence <= Suspect - Heartbeat/2: the node is passive at least Heartbeat/2 before the
// decision, which covers requests in flight and clock drift. Fence >= 2*Heartbeat, and request
// timeouts of 3/4 of Fence - Heartbeat, let one heartbeat or poll of a healthy node fail without
// consequence. Suspect >= 3*Heartbeat leaves room for such a Fence.
//
// Membership only determines which node should act. Stored data is safe without it: two nodes that
// both believe to own a conversation fence each other in its log.
//
// Join, Run and Leave are called in this order, one at a time. All other methods are safe for
// concurrent use. New starts no goroutine. All goroutines of Join and Run have ended when they return.
//
// After a crash the row stays. Other nodes expel it. Without others, the next start at its node
// address drops it immediately; any other start waits for Suspect if one of the two serves alone.
package membership
