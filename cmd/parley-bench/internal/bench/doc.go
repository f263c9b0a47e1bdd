// Package bench measures servers of the conversation protocol. It generates a reproducible load and
// reports latencies, processor time and memory.
//
// The command "parley-bench" calls [Run] with a [Suite] and prints the [Report]. The suite [Server]
// uses three processes, all on 127.0.0.1:
//
//	generator (this process) ──HTTP──▶ server ──HTTP──▶ model
//	        └───── raw conditional PUTs into a folder of its own
//
// The model is a [Model], an internal/fakemodel whose tokens can carry the time at which they were
// sent. The server is "parley serve" of [Options.Program] with its defaults. The model is a process of
// [Options.Self], so the kernel's counts for the server cover the server only. Profiles and garbage
// collections are requested at the server's admin listener.
//
// Guarantees:
//
//  1. Texts, ids, counts and warm-ups are fixed: two runs generate the same load. A
//     scenario that exceeds its time is cut short, and its sample count shows it.
//  2. Quantiles are exact: all samples are kept and sorted. Nothing is averaged.
//  3. An answer that violates the protocol fails its scenario, and the
//     others go on; the report has the error in place of metrics.
//  4. The report has the processor time of all three processes, because generator and model
//     compete with a server on the same machine.
//  5. Only the operations that a scenario names are timed. The wait for a conversation to become
//     idle between two samples is not.
//  6. Every child is ended and waited for before Run returns, and ends by itself
//     when this process crashes. The data is removed.
//
// Every request expects complete answers of the public protocol and nothing else, so [Options.Against]
// may name any server of it. Scenarios that need a process, a folder or the model are omitted there.
//
// The suite [Log] needs no server: it compares appends to conversations with raw conditional PUTs of
// the same bytes, in turn, in this process. In [Cluster] several nodes share a bucket at an endpoint:
//
//	generator ──HTTP──▶ nodes ──HTTP──▶ model
//	    └─────────────┬───┴────────────▶ bucket
//	             reads logs
//
// A node, the model and the bucket are children as above. The outcome of a message is read from its
// log in the bucket, not from the answers of a node: attempts, settlements, and the writer of each
// batch. A request that a node does not take is retried once at another one, and both kinds are
// counted separately. Failed requests, lost messages and consumed attempts are metrics; they fail no
// scenario.
//
// "parley-bench compare" calls [Compare], which runs Server for two programs in turn.
//
// Each call of these belongs to one goroutine; several calls may run concurrently, each with its own
// folder. After a crash a folder of temporary data remains, and in an external bucket the objects
// below the run's prefix.
package bench
