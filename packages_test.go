package parley_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A purpose is one row of the package table of docs/architecture.md. Packages of one level may share a row. The level is
// that of packages.
type purpose struct {
	pkgs string // separated by ", "
	text string
}

// purposes returns the rows in the order of the page. The table of the page is generated from it.
func purposes() []purpose {
	return []purpose{
		{"conversation", "ids, offsets, records, batches, folds, projections, errors; the seams `Dispatcher` and `Reader`; no I/O, clock or randomness"},
		{"memory", `bounds the bytes that a node holds on behalf of requests, and accounts for each holder`},
		{"internal/model", `exhaustive exploration of small models of the protocols between nodes`},
		{"internal/reduce, internal/schedule", `a conversation folded from chunks as a client does it; shared parts of seeded schedules: draws, outcomes, traces`},
		{"agent", `the author's API; derives JSON schemas of Go types, and is the only user of the JSON-schema library`},
		{"agent/agenthost", `the host side of tools and hooks: what a runtime or a test gives them and how it calls them`},
		{"agent/internal/seam", `context keys under which tools and hooks find their host`},
		{"conversation/feed, conversation/transfer", `the event stream of the beta line; records made from the public output of other servers`},
		{"storage", "the rules of the log, journals, attachments and the format stamp over the interface `Bucket`"},
		{"storage/segment", `the bytes of a log: batch, hash chain, segment`},
		{"observability", `event types, the events of a batch, queues and observers`},
		{"observability/stats", `aggregates of events, and the tree of one submission`},
		{"providers", `the interface to model vendors; streams, registry, classes of failure`},
		{"providers/eventstream, providers/sse, providers/picture", `the binary framing of AWS; server-sent events of vendors; the media type of an image, detected from its first bytes`},
		{"channels", `the interface to platforms that send webhooks: routes, order of checks, results, secrets, replies`},
		{"channels/notes, channels/commerce, channels/messenger, channels/slack, channels/github, channels/discord, channels/stripe, channels/twilio, channels/whatsapp, channels/standardwebhooks", `the webhooks of ten platforms`},
		{"channels/channeltest", `the suite of channels`},
		{"outbox", `the interface to the targets of posts`},
		{"outbox/webhook", `posts as signed webhooks to addresses of the public internet`},
		{"actors", `the runtime: activations, dispatches, reads`},
		{"actors/follower", `one view of a conversation for all its readers on a node`},
		{"actors/internal/pending", `durable pending work: the pending-work journal, its sweep, quarantine, timers`},
		{"actors/internal/prompt", `the messages of a conversation that a model receives`},
		{"actors/internal/relay", `pushes batches between nodes for their readers`},
		{"actors/internal/history", `pages, checkpoints, segments, and deletion of the objects that they replace`},
		{"actors/internal/machine", `the pure state machine of one activation`},
		{"actors/internal/work", `model calls, tools, hooks, subagents, author state, summaries`},
		{"actors/internal/events, actors/internal/export", `hands events to the exporter and to observers without waiting; ships durable events behind a cursor`},
		{"actors/internal/grain", `virtual actors on protoactor-go; the only package that imports it`},
		{"actors/internal/series, actors/internal/summary", `numbering of objects that are rewritten whole; the range and the text of a summary of a conversation`},
		{"actors/internal/membership", `the table of members in the bucket`},
		{"actors/internal/wire", `generated messages between the edges of a node and its actors`},
		{"observability/clickhouse, observability/jsonl, observability/otel", `events in ClickHouse (schema, migrations, sink, reader); as JSON lines; as traces and metrics of OpenTelemetry`},
		{"observability/sinktest, providers/providertest, storage/storagetest", `the suites of sinks, of model protocols, of buckets and logs; decorators that inject faults and count`},
		{"client", `the Go client of a conversation, and of runs`},
		{"http, http/beta", "the conversation protocol, imported as `parleyhttp`; the wire of the beta line's streams"},
		{"storage/s3, storage/local, internal/readsocket", "`Bucket` over any S3-compatible store; over one folder in this process; reads of that folder from another process"},
		{"storage/inspect", `reads, verifies and repairs the contents of a bucket`},
		{"providers/anthropicmessages, providers/bedrockconverse, providers/googlegenerativeai, providers/mistralconversations, providers/openaicompletions, providers/openairesponses", `the wire formats of Anthropic messages, of Amazon Bedrock's Converse, of generateContent (Gemini API and Vertex AI), of Mistral, of chat completions, and of responses with its two variants`},
		{"providers/bedrockconverse/awsauth", `finds AWS credentials and signs requests`},
		{"providers/catalog", `data of 1,608 models of 41 providers`},
		{"providers/edge", `models through the binding of an edge platform, by two wire formats`},
		{"providers/internal/claude, providers/internal/sides", `requirements of Claude in each format; messages that alternate between two sides`},
		{"providers/demo", `an offline model`},
		{"agenttest", `runs agents in tests of their authors: scripted models, virtual time, crashes, no network`},
		{"console", `the web page for reading and trying agents, and the checks of its requests`},
		{"internal/admin, internal/folder", `health, readiness and metrics of a node on a separate listener; metrics of a data folder`},
		{"internal/analytics", `runs the queries of analytics.md and of the dashboard against events`},
		{"internal/attackrun, internal/clusterrun, internal/eventsrun, internal/killrun", `runs of real processes that are attacked, killed, paused, cut off and starved, then audited`},
		{"internal/chaos, storage/internal/logsim", `seeded schedules under faults and their checkers: of nodes and callers; of one log`},
		{"internal/cli, internal/cli/converse", `the program without its commands: start, exit and shared parts; a terminal client`},
		{"internal/cli/clitest", `runs commands for tests, in process and as a process, and calls the nodes that they start`},
		{"internal/cli/operator, internal/cli/analyst, internal/cli/server, internal/cli/clientcmd", `the commands, grouped by user: operators, analysts, a node's terminal, clients`},
		{"internal/clickhousetest", `a real ClickHouse engine for tests: a server, a program, or the engine's library`},
		{"internal/clickhousetest/engine", `serves the engine's library over ClickHouse's native protocol and HTTP`},
		{"internal/config", `reads and validates parley.yaml, and opens its bucket`},
		{"internal/contain, internal/outage, internal/devlog, internal/waiting", `contains panics of authors' code; logs an outage once; log lines with stacks for authors; waits in tests`},
		{"internal/fakemodel", `a model vendor for tests and the bench, over HTTP: paces, tool calls, failures on demand`},
		{"internal/sample", `chooses the volume of a test: all of it, or a sample under the race detector`},
		{"internal/s3front, internal/s3server", "serves any `Bucket` over the part of S3 that `storage/s3` uses; starts versitygw and MinIO; both for tests"},
		{"internal/noderun", `runs real node processes, calls them as checking clients, reads their logs and compares nodes; for tests`},
		{"internal/proc, internal/sample/volumes, internal/table, internal/threads", "processes of tests and the bench; the tests that use a sample, for `make volumes`; tables of output; number of threads"},
		{".", `package parley: the program as a library, with the agents of an author`},
		{"cmd/parley", `the program`},
		{"cmd/parley-bench, cmd/parley-bench/internal/bench", `the bench: repeatable loads on a parley program, the log and clusters, and a comparison of two programs`},
		{"examples/bots, examples/hello, examples/nightly, examples/quickstart, examples/research, examples/support", `programs that use Parley as a library`},
	}
}

const packageTable = "| level | package | purpose |\n|---|---|---|\n"

// TestPackageTable generates the package table of docs/architecture.md. With -rewrite it writes the page.
func TestPackageTable(t *testing.T) {
	const name = "docs/architecture.md"
	levels, shown := map[string]int{}, map[string]bool{}
	for _, r := range packages() {
		levels[r.pkg] = r.level
	}
	want := strings.Builder{}
	want.WriteString(packageTable)
	for _, row := range purposes() {
		pkgs := strings.Split(row.pkgs, ", ")
		for _, pkg := range pkgs {
			if level, ok := levels[pkg]; !ok || level != levels[pkgs[0]] || shown[pkg] {
				t.Errorf("row %q: got package %q of level %d (known: %t, in an earlier row: %t), want packages of level %d", row.pkgs, pkg, level, ok, shown[pkg], levels[pkgs[0]])
			}
			shown[pkg] = true
		}
		fmt.Fprintf(&want, "| %d | `%s` | %s |\n", levels[pkgs[0]], strings.Join(pkgs, "`, `"), row.text)
	}
	for pkg := range levels {
		if !shown[pkg] {
			t.Errorf("purposes has no row of package %q", pkg)
		}
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(regexp.QuoteMeta(packageTable) + `(?:\|.*\n)*`).FindIndex(page)
	if at == nil {
		t.Fatalf("%s has no package table", name)
	}
	if got := string(page[at[0]:at[1]]); got == want.String() || t.Failed() {
		return
	}
	if !*rewrite {
		t.Errorf("the package table of %s differs from purposes; write it with -rewrite", name)
		return
	}
	if err := os.WriteFile(name, slices.Concat(page[:at[0]], []byte(want.String()), page[at[1]:]), 0o644); err != nil {
		t.Fatal(err)
	}
}
