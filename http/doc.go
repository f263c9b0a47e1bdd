// Package http serves the conversation protocol. Each agent conversation has a path {mount}/:id, with
// POST for admission, GET and HEAD for reads, and subroutes for aborts and attachments. It is imported
// as parleyhttp.
//
// [New] takes the two interfaces of the runtime: conversation.Dispatcher for writes and
// conversation.Reader for reads. It also takes a list of mounts, each for an agent that the Dispatcher
// serves. The package validates and decodes requests, frames encoded pages and renders errors. It must
// not depend on the runtime's packages.
//
//	POST /:id                          admission, 202
//	GET  /:id                          snapshot
//	GET  /:id?view=updates&offset=…    chunks after an offset
//	     …&live=long-poll              waits for a chunk, at most 30 s
//	     …&live=sse                    server-sent events
//	HEAD /:id                          the head's offset
//	POST /:id/abort                    ends all unsettled work
//	GET  /:id/attachments/:attachment  the bytes of an attachment
//
// It also serves the webhooks of [Options.Channels], at /channels/<name>/webhook.
//
// Guarantees:
//
//  1. A request is validated completely before the runtime receives it. A rejected request causes
//     neither Stage nor Admit, and leaves no temporary file.
//  2. The checks of an admission have one order: method, blank id, wait, media type, JSON, shape,
//     uid with initialData. Then the Dispatcher decides.
//  3. A request uses a bounded amount of memory, whatever its size. Its body is spooled to a
//     temporary file, and attachments are decoded from there into files of their own. Files are
//     unlinked while in use where the system allows it. At most [Options.InFlightBytes] of spooled
//     bodies are decoded and admitted concurrently. Others wait in order until their contexts end;
//     small bodies do not wait. All bodies together are bounded in memory ([Options.BodyBytes]) and
//     on disk ([Options.SpoolBytes]). A body over these bounds is rejected as unavailable.
//  4. Every error has the same envelope. The text of an error that is not a *conversation.Error is
//     not sent; the response and a log line share a ref instead.
//  5. If the client has disconnected, the connection is aborted without a response. A long-poll
//     abandoned while waiting ends with status 499, for middleware.
//  6. A page's JSON is sent as the Reader encoded it, without a copy unless it is small. All
//     responses share one copy in memory. A data frame and its control frame are flushed together.
//  7. Live responses end when the client disconnects or does not read for [Options.SlowReader], and
//     when a read fails. They also end at [Handler.Drain] and at the end of a [Server]. The
//     server's own timeouts do not end them.
//  8. On every route a client has [Options.SlowReader] for each 64 KiB of a response, and
//     [Options.SlowSender] for each 16 KiB of a body. Limits of the server do not change that. A
//     slower client is disconnected. An unread body delays the response by at most half a second.
//  9. The pages being written to clients are bounded in total ([Options.ReaderBytes]). Over the
//     bound, readers without progress for a quarter of SlowReader are disconnected first. Then
//     reads are rejected as unavailable.
//  10. A download is sent in pieces of 64 KiB and holds two of them. The last piece is sent only
//     after the content is verified. A client that receives Content-Length bytes has the correct
//     ones; otherwise the connection breaks.
//
// Authentication and CORS are middleware before the handler. Middleware that rejects a request calls
// [LeaveBody]. The server bounds the time for headers and between requests, and the order of shutdown:
// use [Serve], or [Server] for more options. With another server set ReadHeaderTimeout and
// IdleTimeout, and call [Handler.Drain] before its Shutdown.
//
// A [Handler] is safe for concurrent use and starts no goroutine that outlives a request. It has no
// durable state: the Dispatcher makes admissions and aborts durable, and a reader resumes from its
// last offset.
package http
