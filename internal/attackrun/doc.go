// Package attackrun attacks a node, and a cluster of three, in every way at once that a
// client, a model, a tool and a machine room can, beside clients that behave. It is tests
// alone; nothing imports it.
//
//	hostile clients ─▶ ┌ node 1 ┐ ◀─ clients that behave, and are timed
//	models, tools ───▶ │ node 2 │
//	kills ───────────▶ └ node 3 ┘ ──▶ bucket, which stands still at times
//
// The nodes are the parley program, built without the race detector, whose memory is not
// the program's, and with the tag attack, which gives one agent tools: one that says or
// fails with megabytes, and one that dispatches to its own conversation. A node over a
// folder is alone; three are a cluster over versitygw. Each is told of 512 MiB, by
// limits.memoryBytes, as an operator would. Clients have a token.
//
// First the clients that behave are alone, and timed. Then they go on while every kind of
// attack has a task that performs one round after the other: queues of 4 MB messages,
// models that never end with text or arguments, readers that never read, initial data that
// is hard to check, bodies that stall with the token and without, connections that say
// nothing, followers of many conversations, outputs and errors of tools beyond a batch,
// 1,000 calls in a reply, messages that a conversation sends itself. Meanwhile nodes are
// killed and ended in order, and the store of all stands still (for a folder, the
// process). What holds:
//
//  1. No node ends by itself, and none had more than 512 MiB resident at any time.
//  2. A client that behaves gets no status of 500 or more, but for one case: a 503 with
//     Retry-After to a request that overlaps a fault, which lasts from a kill, an end or a
//     stop of the store until every node is ready again. Its text may not speak of
//     memory, which is no fault's doing. Such answers are counted and told. A refused or
//     broken connection is no answer: the client goes to another node, as it does after
//     a 503, under the same idempotency key. Nothing else is excused, whatever else
//     happens.
//  3. Everything such a client got a 202 for is in the log once, at the offset of its
//     receipt, and is settled once, as completed; "parley log verify" finds no damage.
//  4. With -long, the p99 of admissions, settlements and snapshots of these clients is
//     within 5 times their own of before, or of 20 ms if that was less. What overlaps a
//     fault is told beside it and not judged: it waits for a node to be taken for dead.
//  5. Every kind of attack and fault was seen to hit. Without -long each goes on until it
//     has, and then leaves the machine to the others, and no time decides: neither a
//     latency nor a 503 of the second rule, fault or not, which a node also gives whose
//     heartbeat was late because others had the processors.
//
// A seed decides what comes when; what nodes make of it is up to the machine. Who attacks,
// with the models that never end, is a process of its own, which with -long comes last
// among those who want a processor: in the world it has a machine of its own. The nodes,
// their store, the clients that behave and their models share what there is, so that
// latencies are those of a machine without a core to spare, and those of a machine that
// does something else say nothing.
//
//	go test ./internal/attackrun                                    some seconds of each, with the race detector of a few on one node
//	go test ./internal/attackrun -timeout 0 -v -long                15 minutes of each
//	go test ./internal/attackrun -v -long -duration 1m -kinds crowd what one kind does
//
// -program takes a program that is there already, -keep a folder for the nodes' logs.
//
// Every goroutine and process is waited for. The nodes end with the test process,
// whatever ends that.
package attackrun
