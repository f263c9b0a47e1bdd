// Package eventsrun verifies that no durable event is lost or counted twice between the logs of a
// cluster and the ClickHouse that receives its events. It contains tests only; nothing imports it.
//
//	clients ─▶ 3 nodes ─▶ bucket of an S3 server ─▶ expected events
//	              │
//	              └─────▶ ClickHouse, killed and restarted ─▶ stored events
//
// The nodes are the parley program, built with the race detector if the test is; the model's vendor is
// an internal/fakemodel in the test process. Clients post at any node: steps with many calls of a tool
// that does not exist, tasks of a subagent, model calls that fail once, and messages that are aborted.
// During this the database server is killed and restarted three times. In the last, long outage a node
// with entries in its export journals is killed permanently, and another is started in its place. Then
// no client posts any more, and the nodes catch up. In the end:
//
//  1. The ids of the durable events in the view are those that the logs of all
//     conversations give, projected by the test; each once. So are their number, and the number of
//     distinct ids in the table.
//  2. The durable events of a sample of conversations, read from the database, equal those of their
//     logs to the byte of their JSON.
//  3. A node that was not killed emitted as many live events as it counts
//     as stored or dropped. The highest number in their ids is the number of emitted events;
//     it is known from a conversation that was begun at the end. The table has as many as
//     were counted as stored, and each number once. It may have more by at most one write for each kill of the
//     server, whose answer was lost and whose events were counted as dropped.
//  4. No turn waits for the database: every message settles, and in every
//     outage each client saw a message settle that it posted during the outage.
//  5. No node has more memory resident than a bound, with 64 MiB for waiting durable
//     events and 32 MiB for live ones. The bound is higher with the race detector.
//  6. No node ended by itself, panicked or had a data race. SIGTERM ends a node with 0.
//
// A seed decides the messages, and the times of the kills as shares of the wanted events. The nodes'
// reactions depend on the machine, so a seed repeats its schedule but not its outcome. No check
// depends on time: the test waits for each required event.
//
//	go test ./internal/eventsrun                                                10,000 events, 2,000 and 3 clients with the race detector
//	go test ./internal/eventsrun -timeout 0 -run TestEventsRun -v -events 1000000
//
// -seed changes the seed, -program uses an existing program. From 200,000 events on, the long outage
// continues until a node has exhausted its memory for events, so that it makes some of them from logs.
//
// Every goroutine and process is waited for. The nodes end with the test process, however it ends: a
// reaper process gets their pids and kills them.
package eventsrun
