// Package attackrun attacks a node, and a cluster of three, with hostile clients, models and tools.
// At the same time it injects process and store faults, and well-behaved clients use the nodes. It contains tests
// only; nothing imports it.
//
//	hostile clients ─▶ ┌ node 1 ┐ ◀─ well-behaved clients, timed
//	models, tools ───▶ │ node 2 │
//	kills ───────────▶ └ node 3 ┘ ──▶ bucket, which stalls at times
//
// The nodes are the parley program, built without the race detector, which changes its memory use. The
// tag attack gives one agent tools: one that returns or fails with megabytes, and one that dispatches
// to its own conversation. A node over a folder is alone; three are a cluster over versitygw. Each has
// a limit of 512 MiB, set by limits.memoryBytes as an operator would. Clients have a token.
//
// First the well-behaved clients run alone, and are timed. Then they continue while every kind of
// attack has a task that performs one round after the other. The kinds are:
//
//   - queues of 4 MB messages
//   - models that never end with text or arguments
//   - readers that never read
//   - initial data that is expensive to validate
//   - bodies that stall, with the token and without
//   - connections that send nothing
//   - followers of many conversations
//   - outputs and errors of tools beyond a batch
//   - 1,000 calls in a reply
//   - messages that a conversation sends itself
//
// At the same time nodes are killed and shut down, and the store of
// all stalls (for a folder, the process). Checks:
//
//  1. No node ends by itself, and none has more than 512 MiB resident at any time.
//  2. A well-behaved client gets no status of 500 or more, with one exception: a 503 with
//     Retry-After to a request that overlaps a fault. A fault lasts from a kill, a shutdown or a
//     stall of the store until every node is ready again. Its text may not name
//     memory, which is not caused by a fault. Such answers are counted and logged. A refused or
//     broken connection is no answer: the client tries another node, as it does after
//     a 503, under the same idempotency key. There is no other exception.
//  3. Every message of such a client with a 202 is in the log once, at the offset of its
//     receipt, and is settled once, as completed; "parley log verify" finds no corruption.
//  4. With -long, the p99 of admissions, settlements and snapshots of these clients is
//     within 5 times the p99 without attacks, or 5 times 20 ms if that is more. Samples that overlap a
//     fault are logged but not checked: they wait for the failure detector.
//  5. Every kind of attack and fault has hit. Without -long each continues until it
//     has, and then leaves the machine to the others. Then neither latencies nor the 503 of rule 2
//     are checked, because a node also sends a 503 if its heartbeat was late on a busy machine.
//
// A seed decides the schedule; the nodes' reactions depend on the machine. The attackers, with the
// endless models, are a separate process, which with -long has the lowest priority: in production it
// has another machine. The nodes, their store, the well-behaved clients and their models share the
// machine, so the latencies are those of a fully loaded machine. Latencies on a machine with other
// load are meaningless.
//
//	go test ./internal/attackrun                                    some seconds of each, with the race detector of a few on one node
//	go test ./internal/attackrun -timeout 0 -v -long                15 minutes of each
//	go test ./internal/attackrun -v -long -duration 1m -kinds crowd one kind only
//
// -program uses an existing program, -keep a folder for the nodes' logs.
//
// Every goroutine and process is waited for. The nodes end with the test process, however it ends.
package attackrun
