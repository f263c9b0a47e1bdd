// Package grain runs one kind of virtual actor, one activation per identity, on protoactor-go, over one
// process or several.
//
// Package actors calls it: it hands New a producer of conversation actors and sends them messages
// with Cluster.Request. The package calls protoactor-go and gRPC, and only through what they export.
// One member and many members take the same path; they differ in the Membership alone. A member that can
// only be alone listens nowhere, and may live in a bubble of testing/synctest.
//
// Guarantees:
//
//  1. Within one member at most one activation of an identity runs at any time. A request that
//     arrives while the old activation ends waits for that. Across members that is best effort:
//     members whose views differ may each run a copy, so whatever an activation writes needs a fence.
//  2. A message is handed to an activation at most once per Request, unless the activation is known
//     not to have seen it. Request never repeats a message whose fate it does not know. A link that
//     ends, or a member that leaves, ends the calls to it at once.
//  3. A message that is still queued when its activation stops is returned to the caller's Request,
//     which sends it to the next activation. Stopping loses no request.
//  4. A panic in an actor answers the caller with ErrPanicked, stops that activation and touches
//     nothing else. It is never restarted in place; the next request makes a new one.
//  5. A member refuses what it does not own in its own view. An identity belongs to one member of a
//     view, in proportion to the weights; a change moves only the share of who came, went or drains.
//  6. An activation whose identity belongs elsewhere is told so with HandOver, not cut off, and is
//     stopped when it takes too long. After Release has returned nil, no member that was asked runs
//     a copy that began before, except one that waits in Release itself.
//  7. Nobody is let in, or talked to, without a certificate of the CA with the members' name, but for
//     Insecure, which is loopback only. Whoever is refused, and every frame that no member would
//     send, is one warning with address and reason, and nothing else happens.
//  8. Message bodies and panic values that may carry them never reach the log.
//  9. A process that starts anew at the address of another is reached as soon as it listens, 250 ms
//     later at most, and no peer, hung or hostile, holds up Stop.
//
// The library's own start and stop are not used. cluster.StartMember sleeps a second and starts
// gossip and pub-sub; cluster.Shutdown sleeps two and then panics when called twice. Start does what is
// needed of StartMember instead: remote.NewRemote and its Start, and the identity lookup's Setup. The
// library's list of members and its table of kinds stay empty; see lookup.show. Gossip is left out on
// purpose: it would expel members on its own judgement, and the Membership alone decides about those.
// Between the library's endpoints and their connections stands a link of ours; see links.
//
// Concurrency: every exported method may be called from any goroutine, except that Request, AskNode and
// Release block and must not be called within an actor's Receive. New starts no goroutine. All that
// Start starts has ended when Stop returns nil, except that the connections of links take another
// moment to close. A local message is passed by pointer: neither side may change it after it was sent.
//
// After a crash nothing is left: activations are memory, and their owner's log is the truth.
//
// The library silences the process-wide gRPC log (grpclog) at every Start, without synchronisation.
// Start and Stop of all clusters in one process take turns because of that. A process that starts
// another cluster while gRPC connections are open still trips the race detector.
package grain
