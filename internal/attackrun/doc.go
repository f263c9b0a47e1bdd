// Package attackrun attacks a node, and a cluster of three, with hostile clients, models and tools. At
// the same time it injects process and store faults, and well-behaved clients use the nodes. It
// contains tests only; nothing imports it.
//
//	hostile clients ─▶ ┌ node 1 ┐ ◀─ well-behaved clients, timed
//	models, tools ───▶ │ node 2 │
//	kills ───────────▶ └ node 3 ┘ ──▶ bucket, which stalls at times
//
// The nodes are processes of the parley program. It is built without the race detector, which would
// change its memory use, and with the build tag attack. The tag gives one agent tools: one that
// returns or fails with megabytes, and one that dispatches to its own conversation.
//
// The single node uses a data folder; the cluster uses versitygw, an S3 server. Each node has a limit
// of 512 MiB, set by limits.memoryBytes as an operator would set it. Clients have a bearer token.
//
// First the well-behaved clients run alone, which gives the reference latencies. Then they continue
// while each kind of attack has one task that performs round after round. The kinds, with their names
// for -kinds, are:
//
//   - fat queue: queues of 4 MB messages
//   - endless text, endless arguments: models that never end their reply
//   - never readers: readers that never read
//   - hostile data: initial data that is expensive to validate
//   - stalled bodies: requests whose body stalls, with the token and without
//   - connections: connections that send nothing
//   - followers: followers of many conversations
//   - outcomes: outputs and errors of tools that exceed a batch
//   - crowd: 1,000 calls in a reply
//   - loop: messages that a conversation sends itself
//
// Concurrently nodes are killed and shut down, and the store of all nodes stalls. For a data folder
// the process is stopped instead. Checks:
//
//  1. No node ends by itself, and none has more than 512 MiB resident at any time.
//  2. A well-behaved client gets no status of 500 or more, except a 503 with Retry-After to a
//     request that overlaps a fault. A fault lasts from a kill, a shutdown or a stall of the store
//     until every node is ready again. The text of the 503 may not name memory, because no fault
//     causes a lack of memory. These 503 are counted and logged. A refused or broken connection is
//     no answer: the client tries another node under the same idempotency key, as it does after a
//     503.
//  3. Every message of such a client that got a 202 is in the log once, at the offset of its
//     receipt. It settles once, as completed. "parley log verify" finds no corruption.
//  4. With -long, the p99 of admissions, settlements and snapshots of these clients is at most 5
//     times the reference, or 100 ms if that is more. Samples that overlap a fault are logged but
//     not checked: they wait for the failure detector.
//  5. Every kind of attack and fault has had its effect at least once. Without -long each kind
//     continues until then and stops, to leave the machine to the others. Latencies and the 503 of
//     rule 2 are not checked then, because a node also sends 503 if a busy machine delays its
//     heartbeat.
//
// A seed decides the schedule; the nodes' reactions depend on the machine. The attackers, with the
// endless models, are a separate process, which with -long has the lowest priority, because in
// production it has another machine. The nodes, their store, the well-behaved clients and their models
// share the machine, so the latencies are those of a fully loaded machine. Latencies on a machine with
// other load are meaningless.
//
//	go test ./internal/attackrun                                    some seconds of each, with the race detector of a few on one node
//	go test ./internal/attackrun -timeout 0 -v -long                15 minutes of each
//	go test ./internal/attackrun -v -long -duration 1m -kinds crowd one kind only
//
// -program uses an existing program, -keep a folder for the nodes' logs.
//
// Every goroutine and process is waited for. The nodes end with the test process, however it ends.
package attackrun
