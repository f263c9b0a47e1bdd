// Package http serves the conversation protocol: one agent conversation per
// path {mount}/:id, admitted with POST, read with GET and HEAD, and below it the
// routes to abort it and to download its attachments.
//
// Applications and the binary call it: [New] takes the two seams of the runtime,
// conversation.Dispatcher for writes and conversation.Reader for reads, and a
// list of mounts, each of an agent that the Dispatcher serves. The package knows
// nothing else of the runtime: it checks and decodes requests, frames encoded
// pages and renders errors. It is imported as parleyhttp.
//
//	POST /:id                          admission, 202
//	GET  /:id                          snapshot
//	GET  /:id?view=updates&offset=…    chunks after an offset
//	     …&live=long-poll              held until there is something, or 30 s
//	     …&live=sse                    server-sent events
//	HEAD /:id                          the head's offset
//	POST /:id/abort                    ends all that is owed a settlement
//	GET  /:id/attachments/:attachment  the bytes of an attachment
//
// Beside the mounts it serves the webhooks of [Options.Channels], at /channels/<name>/webhook.
//
// Guarantees:
//
//  1. A request is checked as a whole before the runtime hears of it: a refused
//     one has caused no Stage and no Admit, and leaves no temporary file.
//  2. The checks of an admission have one order: method, blank id, wait, media
//     type, JSON, shape, uid with initialData; then the Dispatcher decides.
//  3. A request holds a bounded amount of memory, whatever its size: its body is
//     spooled to a temporary file and attachments are decoded from there into
//     their own. Files are unlinked while in use where the system allows it. At
//     most [Options.InFlightBytes] of bodies from files are behind the gate, being
//     decoded and admitted, at a time. The rest waits in order, as long as its
//     contexts hold, and no small body waits. What all bodies take together is bounded
//     in memory ([Options.BodyBytes]) and on disk ([Options.SpoolBytes]); a body for
//     which there is no room is refused as unavailable.
//  4. Every error is one envelope. The text of an error that is not a
//     *conversation.Error stays in the process; the answer and a log line share
//     a ref instead.
//  5. A client that left gets nothing, and its connection is aborted. A long-poll
//     that is left while it is held ends with status 499, for middleware to see.
//  6. A page's JSON goes out as the Reader encoded it, without a copy unless it is
//     small, and is in memory once for all it is written to. A data frame and its
//     control frame leave with one flush.
//  7. Live responses end when the client leaves, when it does not read for
//     [Options.SlowReader], when a read fails, at [Handler.Drain] and at the end of a
//     [Server]; nothing else ends them, also not the server's own timeouts.
//  8. On every route a client has [Options.SlowReader] for each 64 KiB of an answer and
//     [Options.SlowSender] for each 16 KiB of a body, whatever limits the server has, and
//     loses its connection if it takes longer. A body that is not read, such as that of a
//     refused request, is waited for no longer than half a second.
//  9. The pages that are being written to clients are bounded altogether
//     ([Options.ReaderBytes]). Where there is no room for another, readers that have
//     taken nothing for a quarter of SlowReader are disconnected first, then reads are
//     refused as unavailable.
//  10. A download leaves in pieces of 64 KiB and holds two of them, however slow
//     the client is. The last piece leaves only when the content has proved whole: a
//     client that has Content-Length bytes has the right ones, and any other has a
//     broken connection.
//
// Authentication and CORS are middleware before the handler; what refuses a request
// there calls [LeaveBody]. The time for headers and between requests is the server's to
// bound, and so is the order in which it ends: [Serve] does both for a runtime and its
// handler, [Server] with more to say. With a server of another kind set ReadHeaderTimeout
// and IdleTimeout, and call [Handler.Drain] before its Shutdown.
//
// A [Handler] is safe for concurrent use and starts no goroutine that outlives a
// request. It keeps nothing that a crash could lose: an admission or an abort is
// what the Dispatcher made durable, and a reader resumes from its last offset.
package http
