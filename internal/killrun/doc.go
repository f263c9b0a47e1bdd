// Package killrun ends a server with SIGKILL at random points of streaming turns with tools,
// repeatedly over the same data. It checks that the guarantees hold. It contains tests only; nothing
// imports it.
//
//	seed ─▶ cycle: start, repeat what was lost, post, abort, read, kill ─▶ next seed
//	test process: clients, readers, the model's vendor, the checks
//	server process: this test binary again, as a program that uses the library
//
// The model is an internal/fakemodel in the test process, so that it outlives the server. The agent's
// tools are quick, slow, failing, run in parallel and write data. Each notes its begin and its result
// in a ledger file next to the data.
//
// A run is several cycles over one folder, or one bucket of an S3 server. After its last kill a server
// is started once more and only read from, until all acknowledged messages are settled. Only then are
// unanswered messages sent again. In the end:
//
//  1. Every message that was answered with 202 is in the log, at the offset of its receipt, once
//     per key; its attachment has its bytes.
//  2. Every submission in the log is settled once, in order of admission; as failed only after all
//     of its attempts, as aborted only if an abort covers it.
//  3. A reader over all servers and connections sees the log chunk for chunk: no gap, no
//     repetition, nothing revoked.
//  4. After every restart the snapshot begins with the text that readers have seen, and has the
//     tool results they have seen.
//  5. The log folds, and its fold is the snapshot the last server gave.
//  6. No tool call began twice; none began that is not in the log; a result in the log is the one
//     that its call returned; data precedes it once and in order.
//  7. A response that was never interrupted has the whole text of its script.
//  8. No server ended by itself, panicked or had a data race.
//
// Over a bucket a proxy may replace 30 % of the store's answers while a server runs, and for 10 s all
// of them. The replacements are errors and pages with a status of success, truncated and corrupt
// bodies, and answers that lack a header. Every second server starts under these answers; a start that
// fails with an error is repeated. Then no conversation is quarantined in the end, and 503 is the only
// refusal.
//
// A seed decides the requests, their times, and the event at which the server is killed. The server's
// reactions depend on the machine, so a seed repeats its schedule but not its outcome, and no check
// depends on time.
//
// TestKillLoop kills a server of 64 conversations every 3 seconds, regardless of its state. None of
// them is quarantined, and every acknowledged message settles once.
//
//	go test ./internal/killrun                      20 cycles, and 15 seconds of the loop
//	go test ./internal/killrun -run TestKillLoop$ -loop 60m
//	go test ./internal/killrun -cycles 200          the whole list in testdata, as make soak does
//	go test ./internal/killrun -run TestKillRun$ -seed 17,18,19
//
// The last one runs these seeds over one folder, as printed by a failed run. The seeds of earlier
// failures are in testdata/failed.txt and always run.
//
// TestKillRunOfMistakes kills a server whose agent, model, target and observer fail at random. They
// panic, return typed nils, end their goroutine, or have values that cannot be encoded. Sometimes a
// tool ends the process. The process ends in no other way, and each message settles once.
//
// Every goroutine and process is waited for. A server ends with the test process, however that ends.
package killrun
