// Package admin serves what operators and their tools ask a node for, on a
// listener of its own: whether the process lives, whether it should get requests,
// and its metrics in the text format of Prometheus.
//
// "parley serve" makes a [Meter] and a [Server] when the configuration names an
// admin listener, puts the meter before the bucket, and runs the server from
// before the node starts until after it has ended. The package calls the node's
// Status and nothing else of it.
//
// Guarantees:
//
//  1. /healthz answers 200 as long as the process can answer at all. /readyz
//     answers 200 if the node should get requests, and 503 with the reason in one
//     line otherwise. Neither sends a request to the bucket or to other nodes.
//  2. /metrics is one reading of the node's status per scrape, and what [Agents] and a
//     [Meter] have counted. Its names are listed in docs/metrics.md; labels have a fixed
//     set of values, or are names that authors and operators give, at most 100 of each,
//     and none of them tells anything about a conversation.
//  3. A metered bucket passes every call on unchanged, once, and returns what came
//     back. What it measures is the call itself; the body of an opened object is
//     not part of it.
//  4. Nobody has to prove who they are: whoever reaches the listener reads it all.
//  5. /debug/pprof/ is there only if [Options] say so. A profile of the processor ends
//     when the client closes its half of the connection, and is answered then.
//
// Everything is safe for concurrent use. Serve owns the goroutines it starts and
// returns when they have ended. Nothing here is durable.
package admin
