// Package clusterrun runs a cluster of real processes on the loopback interface,
// breaks it in every way a machine room can, and checks that nothing that was
// promised is lost. It is tests alone; nothing imports it.
//
//	seed ─▶ faults ─▶ ┌ node 1 ┐      one TCP proxy before each node, one per node
//	clients ────────▶ │ node 2 │ ◀──▶ before the bucket: every direction of every
//	readers ────────▶ └ node 3 ┘      pair of nodes is broken by itself
//	                      │ ▲
//	          bucket of an S3 server, the model's vendor in the test process
//
// The nodes are the parley program, built with the race detector if the test is.
// Their configuration is a parley.yaml with mutual TLS. A node has a loopback
// address of its own, 127.0.1.11 and on, from which it also connects to others, so
// that a proxy knows who calls.
//
// A run starts the nodes, lets clients post, follow and read, and meanwhile kills,
// pauses, restarts, partitions and starves the nodes as the seed says. A client that
// is not answered, or with 503, repeats its message under the same key at another
// node. Then every conversation is sent one more message, a node is killed for good,
// and no request is sent at all until everything is settled. In the end:
//
//  1. Every message that was answered with 202 is in the log, once, at the offset of
//     its receipt, and is settled once, as completed; those of the last node to be
//     killed without any further traffic.
//  2. What a reader saw by SSE, over all nodes and connections, is chunk for chunk
//     what the log shows: no gap, no repetition. A fresh read at every node shows
//     the same.
//  3. Admissions and reads of a conversation are linearizable in real time. Without
//     strictReads a read that named no offset may be as old as one heartbeat, if it
//     overlaps a change of the membership: from the last look at the bucket without
//     the new epoch until one heartbeat after the first with it. Nothing else may.
//  4. A log never forks: the head it had while the run went on is in its chain.
//  5. No node ended by itself but with 75, and none while only the bucket stood
//     still; SIGTERM ends one with 0; none panicked, had a data race or logged what a
//     message says. "parley log verify" finds no damage.
//
// Two versions side by side: the newer one is built with the tag nextversion and notes
// each admission in a record that must be understood. It holds that back as long as the
// older one is a member; what somebody else has written, the older one refuses.
//
// Strangers at the port between nodes are refused, one line of the log each, and the
// node goes on.
//
// A seed decides what is sent and broken, and when. What the nodes do meanwhile is up
// to the machine, so that a seed repeats its schedule and not its outcome, and no
// check depends on time: what has to happen is waited for.
//
//	go test ./internal/clusterrun                                  the seeds of testdata, the first with the race detector
//	go test ./internal/clusterrun -run TestClusterRun -seed 17     this one alone
//	go test ./internal/clusterrun -timeout 0 -run TestClusterRun -v -long    300 conversations, 5 minutes
//
// -nodes, -conversations and -duration change one of these numbers, -program takes a
// program that is there already. With -nodes 1
// there is one node without a cluster, for a look at the test itself.
//
// Every goroutine and process is waited for. The nodes end with the test process,
// whatever ends that: another process is told their ids and outlives it for a moment.
package clusterrun
