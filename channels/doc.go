// Package channels is the seam to platforms that send webhooks: what a verified way in is,
// and what all of them have in common.
//
// A channel, such as channels/notes, is made by an application with a callback, and mounted
// in one of two ways: listed in the options of package http, which serves it at
// /channels/<name>/webhook beside the agents, or explicitly, since every [Route] is an
// http.Handler:
//
//	mux.Handle("POST /channels/notes/webhook", notes.Route())
//
// Guarantees:
//
//  1. A callback sees only deliveries that were verified, over the exact bytes that came, in
//     constant time. Nothing of a body is parsed before.
//  2. The checks have one order, see [Endpoint]. The first that fails answers, with a status
//     and no body, and the callback is not called.
//  3. A body is bounded in bytes, declared or streamed, and in time. One that is declared too
//     large is not read.
//  4. What a callback returns is the answer, see [Call]; an error of one goes to the error
//     handler of the mount, unless its platform is told nothing.
//  5. A header that comes twice is one value with a comma in it, as the web has it, and so
//     fits no grammar of a signature.
//
// Channels keep no state: they neither drop what comes twice nor put it in order. They are
// safe for concurrent use and start no goroutine.
//
// To implement a channel, make an [Endpoint] for each of its routes and run the suite
// channels/channeltest. [Replies] bring back what agents
// say, through the outbox. The package knows conversations by package conversation alone.
package channels
