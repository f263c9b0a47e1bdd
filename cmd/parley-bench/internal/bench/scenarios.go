package bench

import (
	"context"
	"time"
)

// Suite is a set of scenarios that run together.
type Suite struct {
	of          string // subject of its scenarios, " of …"; "" for servers
	bucket      string // bucket measured by default; "" has none
	full, quick bounds
	scenarios   []scenario
}

type scenario struct {
	name, description, target string
	// raw names the extra row of the raw PUTs that are timed in turn with the scenario, and rawDescription
	// describes it; "" for none.
	raw, rawDescription string
	// n is the number of operations, or of the unit in what.
	n amount[int]
	// warm is the number of prepared conversations with a settled turn; long needs the long
	// conversation.
	warm amount[int]
	long bool
	// ownServer requires a server that is a child, with its process and its folder. ownModel requires
	// that the agent's model is a Model the run can reach.
	ownServer, ownModel bool
	// ratio compares p50 with a raw PUT. rate divides the operations by their time; with waits in
	// between it would be meaningless.
	ratio, rate bool
	// always runs the scenario even if it is not selected.
	always bool
	run    func(context.Context, *job) error
}

func (s *scenario) rows() []Scenario {
	rows := []Scenario{{Name: s.name, Description: s.description, Target: s.target}}
	if s.raw != "" {
		rows = append([]Scenario{{Name: s.raw, Description: s.rawDescription}}, rows...)
	}
	return rows
}

// Names returns the names of the rows of a suite, in order.
func (s *Suite) Names() (names []string) {
	for _, s := range s.scenarios {
		for _, row := range s.rows() {
			names = append(names, row.Name)
		}
	}
	return names
}

// warmUps is the number of unmeasured operations.
var warmUps = amount[int]{20, 5}

// Server measures one server, started by the run or foreign. Scenarios with a separate server come
// first, those that end the server last.
var Server = &Suite{
	full:  bounds{40 * time.Second, 90 * time.Second, 3 * time.Minute, 570 * time.Second},
	quick: bounds{5 * time.Second, 10 * time.Second, 25 * time.Second, 55 * time.Second},
	scenarios: []scenario{
		{name: "raw-put-1", description: "conditional PUT of 300 bytes into a folder, 1 writer", n: amount[int]{2000, 200}, ownServer: true, always: true, rate: true, run: rawPuts(1)},
		{name: "raw-put-16", description: "the same, 16 writers", n: amount[int]{2000, 200}, ownServer: true, rate: true, run: rawPuts(16)},
		{name: "raw-put-64", description: "the same, 64 writers", n: amount[int]{2000, 200}, ownServer: true, rate: true, run: rawPuts(64)},
		{name: "raw-fsync", description: "the limit of the disk: 300 bytes appended to an open file, and fsync, 1 writer",
			n: amount[int]{2000, 200}, ownServer: true, rate: true, run: rawSyncs},

		{name: "start", description: "from the start of the process to its first answer, and its memory then",
			n: amount[int]{5, 2}, ownServer: true, target: "RSS ≤ 40 MB, anonymous ≤ 14 MB", run: starts},
		{name: "idle", description: "memory per idle conversation",
			n: amount[int]{10_000, 500}, ownServer: true, target: "10,000 conversations: ≤ 4 kB each", run: idle},
		{name: "rush", description: "a short turn of each of many new conversations within a minute, and memory then",
			n: amount[int]{50_000, 2000}, ownServer: true, target: "50,000 conversations: RSS ≤ 250 MB", rate: true, run: rush},
		{name: "stored", description: "bytes in the folder per byte of replies, 1,000 tokens at 2 ms each", n: amount[int]{20, 4}, ownServer: true, run: stored},

		{name: "admission-warm", description: "POST to an idle conversation, 1 in flight", n: amount[int]{500, 100}, ratio: true,
			target: "p50 ≤ 0.75 ms", warm: fewWarm, run: admissionWarm},
		{name: "admission-new", description: "POST that creates a conversation, 1 in flight", n: amount[int]{500, 100}, ratio: true,
			target: "p50 ≤ 1.5 ms", warm: oneWarm, run: admissionNew},
		{name: "admission-64", description: "POSTs to warm conversations while their turns run, 64 in flight", n: amount[int]{5000, 500}, ratio: true,
			target: "p99 ≤ 50 ms", warm: manyWarm, rate: true, run: admissionBurst},
		{name: "admission-held", description: "POSTs alone, the model held back, warm conversations, 16 in flight",
			n: amount[int]{10_000, 1000}, ownModel: true, ratio: true, target: "≥ 8,000/s", warm: manyWarm, rate: true, run: admissionHeld},
		{name: "turns", description: "short turns from POST to settlement, 20 tokens at once, warm conversations, 16 in flight",
			n: amount[int]{5000, 500}, target: "≥ 1,200/s, CPU ≤ 0.8 s per 1,000", warm: manyWarm, rate: true, run: turns},
		{name: "first-delta", description: "from the POST to the first delta at an SSE reader", n: amount[int]{100, 20}, ratio: true,
			target: "p50 ≤ 2 × raw PUT + 5 ms", warm: oneWarm, run: firstDelta},
		{name: "token-lag", description: "from the model sending a token to an SSE reader, 200 tokens at 5 ms each",
			n: amount[int]{10, 2}, ownModel: true, target: "p99 ≤ 60 ms", warm: fewWarm, run: tokenLag},
		{name: "readers", description: "the same reply to many SSE readers at once, a sample per reader and token",
			n: amount[int]{500, 100}, ownModel: true, target: "500 readers: p50 ≤ 35 ms, CPU ≤ 0.25 s", warm: oneWarm, run: manyReaders},
		{name: "broadcast", description: "the limit: the frames of such a reply passed on by a bare Go program, a sample per reader and frame",
			n: amount[int]{500, 100}, ownServer: true, warm: oneWarm, run: bareBroadcast},

		{name: "turn-growth", description: "short turns at the end of a long conversation, the model's own time subtracted",
			n: amount[int]{10, 3}, ownModel: true, target: "1,000 turns: p50 ≤ 1.2 × at 10 turns", long: true, run: turnGrowth},
		{name: "snapshot-warm", description: "snapshot of the long conversation", n: amount[int]{200, 50}, ratio: true,
			target: "1,000 turns: p50 ≤ 1.5 ms", long: true, rate: true, run: snapshotWarm},
		{name: "updates-behind", description: "updates of the long conversation, from one turn behind", n: amount[int]{200, 50}, ratio: true,
			target: "1,000 turns: p50 ≤ 1 ms", long: true, rate: true, run: updatesBehind},
		{name: "snapshot-restart", description: "snapshot of the long conversation as the first request after a restart",
			n: amount[int]{50, 2}, ownServer: true, ratio: true, target: "1,000 turns: p50 ≤ 10 ms, p99 ≤ 30 ms", long: true, run: snapshotRestart},
		{name: "kill", description: "from kill -9 in mid-reply to the last settlement after the restart",
			n: amount[int]{3, 1}, ownServer: true, target: "≤ 2 s", warm: oneWarm, run: killed},
	},
}

// Cluster measures clusters of nodes. Each scenario has a separate cluster below a separate prefix of
// the bucket.
var Cluster = &Suite{
	of: " of a cluster", bucket: "the embedded bucket over a folder, served over HTTP on 127.0.0.1",
	full:  bounds{90 * time.Second, 3 * time.Minute, 6 * time.Minute, 20 * time.Minute},
	quick: bounds{20 * time.Second, 3 * time.Minute, 6 * time.Minute, 20 * time.Minute},
	scenarios: []scenario{
		{name: "cluster-failover", description: "from kill -9 of one of three nodes to the first new batch of each turn it ran, at an SSE reader of another node; requests to the other nodes meanwhile",
			n: amount[int]{8, 2}, target: "p50 ≤ 3,000 ms, max ≤ 6,000 ms, failed 0", run: within(equal(3), 3, failover)},
		{name: "cluster-leave", description: "requests at a fixed rate to the ready nodes, from when each was due, while a node joins and another one leaves by SIGTERM",
			n: amount[int]{200, 100}, target: "200/s: failed 0, attempts consumed 0", rate: true, run: within(equal(3), 2, leave)},
		{name: "cluster-rolling", description: "the same while every node is stopped by SIGTERM and started again in turn",
			n: amount[int]{200, 100}, target: "failed 0, lost 0, attempts consumed 0", rate: true, run: within(equal(3), 3, rolling)},
		{name: "cluster-admission", description: "POST to an idle conversation through a node that does not own it, in turn with the same through its owner, 1 in flight",
			n: amount[int]{500, 100}, target: "p50 ≤ 1.3 × through the owner", run: within(oneOwner(false), 2, acrossNodes)},
		{name: "cluster-readers", description: "a batch at SSE readers of another node, behind the median of as many readers at the owner",
			n: amount[int]{200, 50}, target: "p50 ≤ 2 ms", run: within(oneOwner(false), 2, readersOfTwo)},
		{name: "cluster-heads", description: "snapshot of an idle and of a streaming conversation, 1 in flight, at the owner, at another node, and there with strict reads: p50 of each",
			n: amount[int]{200, 50}, run: within(oneOwner(false), 3, heads)},
		{name: "cluster-idle", description: "memory of a node with idle conversations, above that at its start",
			n: amount[int]{10_000, 500}, target: "10,000 conversations: ≤ 40 MB", run: within(oneOwner(true), 2, idleMember)},
	},
}

const pace = "p50 ≤ 1.15 × raw PUT"

// Log compares the log with raw conditional PUTs through the same client into the same bucket. They
// alternate in one run, so that a disturbance affects both.
var Log = &Suite{
	of: " of a log", bucket: "a folder",
	full:  bounds{30 * time.Second, 5 * time.Second, 6 * time.Minute, 20 * time.Minute},
	quick: bounds{8 * time.Second, 2 * time.Second, 6 * time.Minute, 20 * time.Minute},
	scenarios: []scenario{
		{raw: "raw-1k", rawDescription: "conditional PUT of the object of a batch of 1 KiB, 1 in flight, in turn with append-1k",
			name: "append-1k", description: "append of a record line of 1 KiB, 1 in flight",
			n: amount[int]{4000, 1000}, target: pace, run: logged(1<<10, pairs)},
		{raw: "raw-8k", rawDescription: "conditional PUT of the object of a batch of 8 KiB, 1 in flight, in turn with append-8k",
			name: "append-8k", description: "append of a record line of 8 KiB, 1 in flight",
			n: amount[int]{4000, 1000}, target: pace, run: logged(8<<10, pairs)},
		{raw: "raw-64", rawDescription: "conditional PUTs of the object of a batch of 1 KiB, 64 writers, in turn with append-64",
			name: "append-64", description: "appends of 1 KiB in 64 conversations, one in flight in each",
			n: amount[int]{30, 10}, target: "rate ≥ 0.9 × raw PUT", rate: true, run: logged(1<<10, crowds)},
		{name: "stream", description: "records of 120 bytes in one conversation; records that arrive during an append form the next",
			n: amount[int]{1 << 30, 200 << 20}, target: "in a folder: ≥ 50 MB/s", rate: true, run: logged(streamLine, saturated)},
	},
}
