// Package membership keeps a node's row among the members of a bucket: it joins
// them, keeps a heartbeat, confirms the row, publishes who the members are, takes
// out members that died, and leaves.
//
// Package actors calls it around everything else that a node does: Join before
// anything is served, Run as long as anything is, Leave at the end. It calls
// storage, which has the formats of the epochs and heartbeats.
//
// The members are the rows of the newest epoch. Whoever changes a row, adds or
// removes one, creates the next number; of several only one can, and the others
// read what is newest then and judge anew. A node with a node address shares the
// bucket with others that have one. A node without serves it alone.
//
// Guarantees:
//
//  1. A row is removed by its own node, by a newer incarnation at the same node
//     address, or after its heartbeat did not change for Suspect, on the monotonic
//     clock of the node that looks. A pause of that node's process counts as one
//     look, however long it was.
//  2. A member is expelled only by a node that stored every one of its own
//     heartbeats in that time, stored another one just then, saw no change after
//     it, and is not passive: a bucket that takes no requests makes nobody dead. A
//     look that fails begins the time anew.
//  3. A node that serves alone, or finds one that does, takes the place of a row only
//     after that time too, and after its own heartbeat was stored at once; a row
//     that shows life ends its Join with an [*AliveError].
//  4. A heartbeat is stored before the epoch that names its node is sent, and goes
//     on until Join and Run have ended.
//  5. Join returns nil only after the newest epoch held the row.
//  6. Run ends with a [*ReplacedError] only if the newest epoch lacks the row, and with a
//     [*GoneError] only if the epochs were deleted; a bucket that does not answer is no
//     reason, however long.
//  7. A node is passive before it is expelled, see below.
//  8. Publish gets complete epochs with the own row, by rising number, one at a time.
//  9. The highest epoch is never deleted.
//  10. With Options.Reached a row enters without weight if others have theirs, and has it
//     once more than half of those answer this node. It loses it when more than half of
//     all members have not answered for Suspect, and one of them, whose heartbeat lives,
//     reaches more members than this node and not this node. It has it again after most of
//     those with a weight have answered for Suspect.
//
// Every node looks at the 3 members after it in the order of their IDs. When all
// that look at one die with it, it moves up as they are expelled, and is noticed
// then.
//
// A node whose row is not confirmed for Suspect sends no heartbeat until it is: it is passive, and if
// only its heartbeats got through, it would keep a share that nobody serves.
//
// Why 7 holds: the own row is confirmed when a request that began at c shows it in
// the newest epoch, and the heartbeat by a stored one that was sent at b. A node is
// passive from min(b, c) + Fence on, by computation at every call, also after a
// pause of its process. It is judged by looks, a pause of Heartbeat/2 or more
// between them, that span at least Suspect and show one and the same heartbeat. So
// no stored heartbeat was sent after the first look f, b < f, and the verdict comes
// after f + Suspect. [New] demands Fence <= Suspect - Heartbeat/2: the node is passive
// at least Heartbeat/2 before the verdict, which is there for requests under way and
// for clocks that do not run alike. Fence >= 2*Heartbeat, and time-outs of 3/4 of
// Fence - Heartbeat, let one heartbeat or poll of a sound node fail without
// consequence; Suspect >= 3*Heartbeat leaves room for such a Fence.
//
// All of this is about who should act. What is stored is safe without it: two
// nodes that both believe to own a conversation fence each other in its log.
//
// Join, Run and Leave are called in this order, one at a time; everything else is
// safe for concurrent use. New starts no goroutine, and what Join and Run start
// has ended when they return.
//
// After a crash the row stays. The others expel it; without others the next start
// at its node address drops it at once, and any other waits for Suspect if one of
// the two serves alone.
package membership
