// Package clusterrun runs a cluster of real processes on the loopback interface under network, process
// and bucket faults, and checks that no promise is broken. It contains tests only; nothing imports it.
//
//	seed ─▶ faults ─▶ ┌ node 1 ┐      one TCP proxy before each node, one per node
//	clients ────────▶ │ node 2 │ ◀──▶ before the bucket: every direction of every
//	readers ────────▶ └ node 3 ┘      pair of nodes is broken by itself
//	                      │ ▲
//	          bucket of an S3 server, the model's vendor in the test process
//
// The nodes are the parley program, built with the race detector if the test is. Their configuration
// is a parley.yaml with mutual TLS. Each node has a separate loopback address, 127.0.1.11 and on, from
// which it also connects to others, so that a proxy can identify the caller.
//
// A run starts the nodes, and clients post, follow and read. At the same time the seed kills, pauses,
// restarts, partitions and starves nodes. A client without an answer, or with a 503, retries its
// message under the same key at another node. Then every conversation is sent one more message, a node
// is killed permanently, and no request is sent until everything is settled. In the end:
//
//  1. Every message that was answered with 202 is in the log, once, at the offset of
//     its receipt, and is settled once, as completed. Messages of the killed node
//     settle without any further traffic.
//  2. A reader over SSE sees the log chunk for chunk, over all nodes and connections,
//     without gap or repetition. A fresh read at every node gives
//     the same.
//  3. Admissions and reads of a conversation are linearizable in real time. Without
//     strictReads a read without an offset may be as old as one heartbeat, if it
//     overlaps a change of the membership. The change lasts from the last read of the
//     bucket without the new epoch until one heartbeat after the first with it. No other read may be old.
//  4. A log never forks: every head observed during the run is in its chain.
//  5. No node ended by itself except with exit code 75, and none while the bucket only stalled.
//     SIGTERM ends a node with 0. No node panicked, had a data race or logged the text of a
//     message. "parley log verify" finds no corruption.
//
// TestTwoVersions runs two versions in one cluster. The newer one is built with the tag nextversion
// and notes each admission in a record that older versions must not skip. It writes no such record
// while the older one is a member. The older one refuses a log with such a record from elsewhere.
//
// TestUntrustedPeers checks that foreign callers at the port between nodes are refused with one log line
// each, and the node goes on.
//
// A seed decides the requests, the faults, and their times. The nodes' reactions depend on the
// machine, so a seed repeats its schedule but not its outcome. No check depends on time: the test
// waits for each required event.
//
//	go test ./internal/clusterrun                                  the seeds of testdata, the first with the race detector
//	go test ./internal/clusterrun -run TestClusterRun -seed 17     this one alone
//	go test ./internal/clusterrun -timeout 0 -run TestClusterRun -v -long    300 conversations, 5 minutes
//
// -nodes, -conversations and -duration change one of these numbers, -program uses an existing program.
// With -nodes 1 there is one node without a cluster, to check the test itself.
//
// Every goroutine and process is waited for. The nodes end with the test process, however it ends: a
// reaper process gets their pids and kills them.
package clusterrun
