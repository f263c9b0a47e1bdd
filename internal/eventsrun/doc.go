// Package eventsrun shows that no durable event is lost or counted twice between the
// logs of a cluster and the ClickHouse it sends its events to. It is tests alone;
// nothing imports it.
//
//	clients ─▶ 3 nodes ─▶ bucket of an S3 server ─▶ what must be in the database
//	              │
//	              └─────▶ ClickHouse, killed and started again ─▶ what is
//
// The nodes are the parley program, built with the race detector if the test is; the
// model's vendor is an internal/fakemodel in the test process. Clients post at any node:
// steps with many calls of a tool that does not exist, tasks of a subagent, model calls
// that fail once, and messages that are aborted. Meanwhile the server of the database is
// killed and started again three times, and in the last, long time without it a node is
// killed whose export journals list something, for good: another is started in its place.
// Then nobody posts any more, and the nodes catch up. In the end:
//
//  1. The ids of the durable events that the view shows are those that the logs of all
//     conversations give, projected here; each once. So is their number, and that of
//     distinct ids in the table.
//  2. The durable events of a sample of conversations, read back, are those of their
//     logs to the byte of their JSON.
//  3. Of the live events of a node that was not killed, as many were emitted as it counts
//     as stored or dropped. Emitted are the numbers in their ids, the highest of which is
//     known: it is of a conversation that was begun at the end. The table has as many as
//     were counted as stored; more by at most one write of each time that the server was
//     killed, whose answer was lost and whose events were counted as dropped; and each
//     number once.
//  4. No turn waits for the database: whatever is posted settles, and in every time
//     without the server each client saw a message settle that it posted in that time.
//  5. No node has more memory resident than a bound, with 64 MiB for waiting durable
//     events and 32 MiB for live ones. The bound is higher with the race detector.
//  6. No node ended by itself, panicked or had a data race. SIGTERM ends one with 0.
//
// A seed decides what is sent and when the server is killed, in parts of the events that
// are wanted. What the nodes do meanwhile is up to the machine, so that a seed repeats its
// schedule and not its outcome, and no check depends on time: what has to happen is
// waited for.
//
//	go test ./internal/eventsrun                                                10,000 events, 2,000 and 3 clients with the race detector
//	go test ./internal/eventsrun -timeout 0 -run TestEventsRun -v -events 1000000
//
// -seed changes the seed, -program takes a program that is there already. From 200,000
// events on, the long time without the server goes on until a node has run out of memory
// for events, so that it makes some of them from logs.
//
// Every goroutine and process is waited for. The nodes end with the test process, whatever
// ends that: another process is told their ids and outlives it for a moment.
package eventsrun
