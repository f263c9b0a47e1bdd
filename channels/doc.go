// Package channels receives webhooks of messaging and payment platforms and delivers them to
// conversations. It contains the parts that all platforms share: routes, the order of checks, secrets,
// results and replies.
//
// An application makes a [Channel], such as one of channels/notes, with a callback. It mounts the
// channel in the options of package http, which serves it at /channels/<name>/webhook. It may also
// mount a [Route] itself, since each is an http.Handler:
//
//	mux.Handle("POST /channels/notes/webhook", notes.Route())
//
// Guarantees:
//
//  1. A callback sees only verified deliveries. Verification covers the exact bytes of the body,
//     runs in constant time, and precedes parsing.
//  2. The checks have one order, see [Endpoint]. The first that fails responds with a status and
//     no body, and the callback is not called.
//  3. A body is limited in bytes, declared or streamed, and in time. A body whose declared length
//     exceeds the limit is not read.
//  4. The result of a callback is the response, see [Call]. Its error goes to the error handler of
//     the mount, unless the endpoint is Silent.
//  5. A repeated header is one value joined by commas, and so fits no grammar of a signature.
//
// Channels keep no state: they neither drop duplicates nor restore order. They are safe for concurrent
// use and start no goroutine.
//
// To implement a channel, make an [Endpoint] for each of its routes and run the suite
// channels/channeltest. [Replies] send the answers of agents back through the outbox. The package must
// import no runtime: of conversations it knows package conversation only.
package channels
