// Package grain runs virtual actors of one kind on protoactor-go, with one activation per identity, in
// one process or several.
//
// Package actors passes a factory of conversation actors to [New] and sends them messages with
// [Cluster.Request]. This package is the only user of protoactor-go and gRPC, through their exported
// APIs. A single member and many members run the same code with a different [Membership]. A member
// with [Options.Alone] has no listener and can run in a testing/synctest bubble.
//
// Guarantees:
//
//  1. Within one member at most one activation of an identity runs at any time. A request that
//     arrives while the old activation ends waits for the end. Across members this is best effort:
//     members with different views may each run a copy, so all writes of an activation need a fence.
//  2. A message is handed to an activation at most once per Request, unless the activation is known
//     not to have seen it. Request never repeats a message with an unknown outcome. The end of a
//     link, or a member that leaves, ends the calls to it immediately.
//  3. A message that is still queued when its activation stops is returned to its Request, which
//     sends it to the next activation. Stopping loses no request.
//  4. A panic in an actor answers the caller with ErrPanicked and stops that activation only. It is
//     never restarted in place; the next request creates a new one.
//  5. A member refuses identities that it does not own in its own view. Identities are distributed
//     over the members of a view in proportion to their weights. A change of the view moves only the
//     share of the members that joined, left or drain.
//  6. An activation whose identity moved to another member receives HandOver and is stopped after a
//     timeout. After Release has returned nil, no asked member runs a copy that began before, except
//     one that waits in Release itself.
//  7. Every connection, in both directions, needs a certificate of the CA with the members' name.
//     The exception is Insecure, which is loopback only. A refused peer, and a frame that no member
//     sends, causes one warning with address and reason, and no other effect.
//  8. Message bodies, and panic values that may contain them, are never logged.
//  9. A process that restarts at the address of another is reached at most 250 ms after it listens.
//     No hung or hostile peer delays Stop.
//
// The library's own start and stop are not used. cluster.StartMember sleeps a second and starts gossip
// and pub-sub; cluster.Shutdown sleeps two seconds and panics when called twice. Start calls the
// required parts instead: remote.NewRemote and its Start, and the identity lookup's Setup. The
// library's member list and kind table stay empty; see lookup.install. Gossip is not started because
// it would expel members by its own rules; only the Membership decides that. A link of this package
// sits between each endpoint of the library and its connection; see links.
//
// Concurrency: every exported method may be called from any goroutine. Request, AskNode and Release
// block and must not be called within an actor's Receive. New starts no goroutine. All goroutines of
// Start have ended when Stop returns nil, except that link connections close a moment later. Local
// messages are passed by pointer: neither side may change them after sending.
//
// A crash leaves no state: activations are memory, and the log of each conversation is authoritative.
//
// The library silences the process-wide gRPC log (grpclog) at every Start, without synchronization.
// Start and Stop of all clusters in one process are therefore serialized. A process that starts
// another cluster while gRPC connections are open still trips the race detector.
package grain
