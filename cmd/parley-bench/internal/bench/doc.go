// Package bench measures a server of the conversation protocol: it puts a load on
// it that can be repeated, and says how long what took and what it cost.
//
// The command "parley-bench" calls [Run] with a [Suite] and prints the [Report]. In the suite
// [Server], three processes take part, all on 127.0.0.1:
//
//	generator (this process) ──HTTP──▶ server ──HTTP──▶ model
//	        └───── raw conditional PUTs into a folder of its own
//
// The model is a [Model], an internal/fakemodel whose words can carry the time at
// which they were said. The server is "parley serve" of [Options.Program], as anybody
// runs it, and the model a process of [Options.Self]: what the kernel counts for the
// server is the server's alone. What the server is asked beside its load, profiles and
// a collection, it is asked at its admin listener.
//
// Guarantees:
//
//  1. Texts, ids, counts and warm-ups are fixed: two runs put the same load on. A
//     scenario that takes longer than its time is cut short, and its samples say
//     so.
//  2. Quantiles are exact: all samples are kept and sorted. Nothing is averaged.
//  3. An answer that is not what the protocol promises fails its scenario, and the
//     others go on; the report has the error in place of figures.
//  4. The processor time of all three processes is told: what generator and model
//     take, a server on the same machine cannot have.
//  5. Only what a scenario names is timed. Waiting for a conversation to come to
//     rest between two samples is not.
//  6. Every child is ended and waited for before Run returns, and ends by itself
//     when this process dies. The data goes with it.
//
// Every request expects whole answers of the public protocol, and no more than
// that, so that [Options.Against] may name any server of it. Scenarios that need
// to know a process, a folder or the model are left out there.
//
// The suite [Log] needs no server: it compares appends to conversations with raw conditional
// PUTs of the same bytes, in turn, in this process. In [Cluster] several nodes share a bucket
// at an endpoint:
//
//	generator ──HTTP──▶ nodes ──HTTP──▶ model
//	    └─────────────┬───┴────────────▶ bucket
//	             reads logs
//
// A node, the model and the bucket are children as above. What became of a message is
// read from its log in the bucket, not from what a node says: attempts, settlements,
// and who wrote which batch. A request that a node does not take is repeated once at
// another one, and both kinds are counted apart. Failed requests, lost messages and
// consumed attempts are figures and fail no scenario.
//
// "parley-bench compare" calls [Compare], which runs Server for two programs in turns.
//
// Each call of these belongs to one goroutine; several may go on, each with its own
// folder. After a crash a folder of temporary data is left, and in a bucket of others what
// was written below the run's prefix.
package bench
