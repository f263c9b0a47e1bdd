// Package grain runs one kind of virtual actor, one activation per identity, on protoactor-go.
//
// Package actors calls it: it hands New a producer of conversation actors and sends them messages
// with Cluster.Request. The package calls protoactor-go and gRPC, and only through what they export.
// One member and many members take the same path; they differ in the Membership alone.
//
// Guarantees:
//
//  1. Within one member at most one activation of an identity runs at any time. A request that
//     arrives while the old activation stops waits for its end. Across members that is best effort:
//     members whose views differ may each run a copy, so whatever an activation writes needs a fence.
//  2. A message is handed to an activation at most once per Request, unless the activation is known
//     not to have seen it (a dead letter). Request never repeats a message whose fate it does not know.
//  3. A message that is still queued when its activation stops is returned to the caller's Request,
//     which sends it to the next activation. Stopping loses no request.
//  4. A panic in an actor answers the caller with ErrPanicked, stops that activation and touches
//     nothing else. It is never restarted in place; the next request makes a new one.
//  5. A member refuses what it does not own in its own view.
//  6. Message bodies and panic values that may carry them never reach the log.
//
// The library's own start and stop are not used. cluster.StartMember sleeps a second and starts
// gossip and pub-sub; cluster.Shutdown sleeps two and then panics when called twice. Start does the
// exported parts of StartMember instead: remote.NewRemote and its Start, the identity lookup's Setup,
// and MemberList.UpdateClusterTopology with the views that Membership publishes. The one unexported
// step, filling the table of kinds, serves gossip, pub-sub and the library's own lookup; none of them
// runs here, so that table stays empty and lookup keeps the kind's props itself. Gossip is left out on
// purpose: it would expel members on its own judgement, and the Membership alone decides about those.
//
// Concurrency: every exported method may be called from any goroutine, except that Request blocks and
// must not be called within an actor's Receive. New starts no goroutine. All that Start starts has
// ended when Stop returns nil, except the links to other members: they are told to close, and one that
// is still connecting may take some seconds over it. A local message is passed by pointer: neither side may change it after
// it was sent.
//
// After a crash nothing is left: activations are memory, and their owner's log is the truth.
//
// The library silences the process-wide gRPC log (grpclog) at every Start, without synchronisation.
// Start and Stop of all clusters in one process take turns because of that. A process that starts
// another cluster while gRPC connections are open still trips the race detector.
package grain
