// Package killrun ends a server with SIGKILL at random points of streaming turns
// with tools, again and again over the same data, and checks that nothing that was
// promised is lost. It is tests alone; nothing imports it.
//
//	seed ─▶ cycle: start, repeat what was lost, post, abort, read, kill ─▶ next seed
//	test process: clients, readers, the model's vendor, the checks
//	server process: this test binary again, as a program that uses the library
//
// The model is an internal/fakemodel in the test process, so that it outlives the
// server. The agent's tools are quick, slow, failing, run in parallel and write
// data; each notes in a file beside the data that it began and what it returned.
//
// A run is several cycles over one folder, or one bucket of an S3 server. After
// its last kill a server is started once more and only read from, until all that
// was acknowledged is settled. Only then is sent again what was never answered.
// In the end:
//
//  1. Every message that was answered with 202 is in the log, at the offset of its
//     receipt, once per key; its attachment has its bytes.
//  2. Everything in the log is settled once, in order of admission; as failed only
//     after all of its attempts, as aborted only if an abort covers it.
//  3. What a reader saw, over all servers and connections, is chunk for chunk what
//     the log shows for those offsets: no gap, no repetition, nothing taken back.
//  4. After every restart the snapshot begins with what readers had been shown, and
//     has the tool results they had seen.
//  5. The log folds, and its fold is the snapshot the last server gave.
//  6. No tool call began twice; none began that is not in the log; a result in the
//     log is the one that its call returned; data stands before it once and in order.
//  7. A response that was never interrupted has the whole text of its script.
//  8. No server ended by itself, panicked or had a data race.
//
// Over a bucket a proxy may stand before the store, which replaces 30 % of the answers, and
// for 10 s all of them, while a server runs: by errors and pages with a status of success,
// halves, other bytes, and answers that lack a header. Every second server starts under these
// answers; a start that gives up with an error is repeated. Then also no conversation is
// quarantined in the end, and 503 is the only refusal.
//
// A seed decides what is sent, when it is due and at which event the server is
// killed. What the server does meanwhile is up to the machine, so that a seed
// repeats its schedule and not its outcome, and no check depends on time.
//
// TestKillLoop kills a server of 64 conversations every 3 seconds, whatever it does: none of them is
// quarantined, and everything acknowledged settles once.
//
//	go test ./internal/killrun                      20 cycles, and 15 seconds of the loop
//	go test ./internal/killrun -run TestKillLoop$ -loop 60m
//	go test ./internal/killrun -cycles 200          the whole list in testdata, as make soak does
//	go test ./internal/killrun -run TestKillRun$ -seed 17,18,19
//
// The last one runs these seeds over one folder, as a failed run tells. Runs that
// have failed once stand in testdata/failed.txt and are run always.
//
// TestKillRunOfMistakes kills a server whose agent, model, target and observer make mistakes at random: they panic,
// return typed nils, end their goroutine, have values that cannot be encoded, and at times a tool ends the process. The
// process ends in no other way, and each message settles once.
//
// Every goroutine and process is waited for. A server ends with the test process,
// whatever ends that.
package killrun
