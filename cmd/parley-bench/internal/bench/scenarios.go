package bench

import "context"

// need is what a scenario must have beside a server of the protocol; 0 is nothing.
type need int

const (
	// ownModel asks that the agent's model is a Model the run can reach.
	ownModel need = iota + 1
	// ownServer asks that the server is a child: its process, its folder.
	ownServer
)

// scenario is one load and what it shows.
type scenario struct {
	name, what, target string
	needs              need
	// ratio compares p50 with a raw PUT.
	ratio bool
	// always runs it also where others are asked for.
	always bool
	run    func(context.Context, *runner, *Scenario) error
}

// scenarios lists them in the order they run: those with a server of their own
// first, those that end a server last.
func scenarios() []scenario {
	return []scenario{
		{name: "raw-put-1", what: "conditional PUT of 300 bytes into a folder, 1 writer", needs: ownServer, always: true, run: rawPuts(1)},
		{name: "raw-put-16", what: "the same, 16 writers", needs: ownServer, run: rawPuts(16)},
		{name: "raw-put-64", what: "the same, 64 writers", needs: ownServer, run: rawPuts(64)},
		{name: "raw-fsync", what: "the limit of the disk: 300 bytes appended to an open file, and fsync, 1 writer", needs: ownServer, run: rawSyncs},

		{name: "start", what: "from the start of the process to its first answer, and its memory then", needs: ownServer,
			target: "RSS ≤ 40 MB, anonymous ≤ 14 MB", run: starts},
		{name: "idle", what: "memory per conversation that has come to rest", needs: ownServer,
			target: "10,000 conversations: ≤ 4 kB each", run: idle},
		{name: "rush", what: "a short turn of each of many new conversations within a minute, and memory then", needs: ownServer,
			target: "50,000 conversations: RSS ≤ 250 MB", run: rush},
		{name: "stored", what: "bytes in the folder per byte of replies, 1,000 tokens at 2 ms each", needs: ownServer, run: stored},

		{name: "admission-warm", what: "POST to a conversation at rest, 1 in flight", ratio: true,
			target: "p50 ≤ 0.75 ms", run: admissionWarm},
		{name: "admission-new", what: "POST that creates a conversation, 1 in flight", ratio: true,
			target: "p50 ≤ 1.5 ms", run: admissionNew},
		{name: "admission-64", what: "POSTs to warm conversations with their turns beside, 64 in flight", ratio: true,
			target: "p99 ≤ 50 ms", run: admissionBurst},
		{name: "admission-held", what: "POSTs alone, the model held back, warm conversations, 16 in flight", needs: ownModel, ratio: true,
			target: "≥ 8,000/s", run: admissionHeld},
		{name: "turns", what: "short turns from POST to settlement, 20 tokens at once, warm conversations, 16 in flight",
			target: "≥ 1,200/s, CPU ≤ 0.8 s per 1,000", run: turns},
		{name: "first-delta", what: "from the POST to the first delta at an SSE reader", ratio: true,
			target: "p50 ≤ 2 × raw PUT + 5 ms", run: firstDelta},
		{name: "token-lag", what: "from the model saying a token to an SSE reader, 200 tokens at 5 ms each", needs: ownModel,
			target: "p99 ≤ 60 ms", run: tokenLag},
		{name: "readers", what: "the same reply to many SSE readers at once, a sample per reader and token", needs: ownModel,
			target: "500 readers: p50 ≤ 35 ms, CPU ≤ 0.25 s", run: manyReaders},
		{name: "broadcast", what: "the limit: the frames of such a reply passed on by a bare Go program, a sample per reader and frame", needs: ownServer,
			run: bareBroadcast},

		{name: "turn-growth", what: "short turns at the end of a long conversation, the model's own time subtracted", needs: ownModel,
			target: "1,000 turns: p50 ≤ 1.2 × at 10 turns", run: turnGrowth},
		{name: "snapshot-warm", what: "snapshot of the long conversation", ratio: true,
			target: "1,000 turns: p50 ≤ 1.5 ms", run: snapshotWarm},
		{name: "updates-behind", what: "updates of the long conversation, from one turn behind", ratio: true,
			target: "1,000 turns: p50 ≤ 1 ms", run: updatesBehind},
		{name: "snapshot-restart", what: "snapshot of the long conversation as the first request after a restart", needs: ownServer, ratio: true,
			target: "1,000 turns: p50 ≤ 10 ms, p99 ≤ 30 ms", run: snapshotRestart},
		{name: "kill", what: "from kill -9 in mid-reply to the last settlement after the restart", needs: ownServer,
			target: "≤ 2 s", run: killed},
	}
}

// Names returns the names of all scenarios, in the order they run.
func Names() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}
