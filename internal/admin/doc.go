// Package admin serves a node's admin listener for operators and their tools: liveness, readiness, and
// metrics in the text format of Prometheus.
//
// "parley serve" creates a [Meter] and a [Server] if the configuration has an admin listener. It wraps
// the bucket with the meter, and runs the server from before the node's start until after its end. The
// package calls only the node's Status.
//
// Guarantees:
//
//  1. /healthz returns 200 while the process responds. /readyz returns 200 if the node
//     should get requests, otherwise 503 with the reason in one line. Neither sends a
//     request to the bucket or to other nodes.
//  2. /metrics reads the node's status once per scrape, and the counts of [Agents] and a
//     [Meter]. docs/metrics.md lists its names. Labels have a fixed set of values, or are
//     names given by authors and operators, at most 100 of each. None has data of a
//     conversation.
//  3. A metered bucket forwards every call unchanged, once, and returns its result. It
//     measures the call; the body of an opened object is not included.
//  4. There is no authentication: any client that reaches the listener can read everything.
//  5. /debug/pprof/ exists only if [Options] enable it. A CPU profile ends when the client
//     closes its half of the connection, and is sent then.
//
// Everything is safe for concurrent use. Serve owns the goroutines that it starts, and returns when
// they have ended. The package stores nothing durably.
package admin
