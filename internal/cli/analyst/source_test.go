package analyst

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/jsonl"
)

// eventsFile writes events into a file of a folder.
func eventsFile(t *testing.T, dir, name string, events []observability.Event) string {
	t.Helper()
	path := filepath.Join(dir, name)
	f, err := jsonl.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

const wantStats = `
20 events of 2 conversations, 2026-11-01 10:00:00 to 2026-11-01 10:01:05 UTC
1 recovered attempt

SUBMISSIONS  COUNT  SHARE OF SETTLED
queued           2
completed        1            50.0 %
failed           1            50.0 %
aborted          -                 -

RECENT    OF       SUBMISSION  OUTCOME      TOOK  TOKENS   COST
10:01:00  desk/c2  sub_2       failed     5.00 s       -      -
10:00:00  desk/c1  sub_1       completed  7.00 s  27,240  $1.51

LATENCY      COUNT     P50     P90     P99     MAX
admission        1    6 ms    6 ms    6 ms    6 ms
queue            1    3 ms    3 ms    3 ms    3 ms
first token      2  250 ms  250 ms  250 ms  250 ms
turn             2  1.20 s  1.20 s  1.20 s  1.20 s
settlement       2  7.00 s  7.00 s  7.00 s  7.00 s

AGENT  MODEL         TURNS  ERRORS  RETRIES  TOKENS IN  OUT  CACHE READ  WRITE   COST
desk   openai/gpt-5      2       -        2     25,000  240       2,000      -  $1.51

TOOL     CALLS  ERRORS    P50    P90    P99    MAX
look_up      1       -  40 ms  40 ms  40 ms  40 ms

ERROR        OF          COUNT
model_error  submission      1

HOUR              QUEUED  COMPLETED  FAILED  ABORTED  TURNS  TOKENS IN  OUT   COST
2026-11-01 10:00       2          1       1        -      2     25,000  240  $1.51

WHY RECENT ONES FAILED
  1  the model could not answer
`

const wantTrace = `
STEP                                START    TOOK  TOKENS IN  OUT     COST  NOTE
sub_1 of desk: completed                   7.00 s     27,000  240    $1.51  2 attempts
├─ queue                            +0 ms    3 ms
└─ prompt                           +3 ms  7.00 s     27,000  240    $1.51
   ├─ attempt 1: lost               +3 ms    7 ms
   │  └─ turn openai/gpt-5: lost   +10 ms
   └─ attempt 2                   +5.00 s  2.00 s     27,000  240    $1.51  after a loss
      ├─ turn openai/gpt-5        +5.01 s  1.20 s     13,000   40  $0.0125  first token after 250 ms, retry 2
      ├─ tool look_up             +6.21 s   40 ms
      └─ turn openai/gpt-5        +6.30 s  700 ms     14,000  200    $1.50  first token after 90 ms
`

func TestStatsAndTraceOfAFile(t *testing.T) {
	dir := t.TempDir()
	events := clitest.Events(t)
	// A rotated file with duplicates and an invalid line.
	path := eventsFile(t, dir, "events.jsonl", events[3:])
	eventsFile(t, dir, "events.jsonl.000001", events[:12])
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("what is this?\n{\"v\":3,\"ty"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := program.Output(t, "stats", "--file", path)
	if d := cmp.Diff("parley stats: file "+path+wantStats, out); code != 0 || d != "" {
		t.Errorf("exit %d (-want +got):\n%s", code, d)
	}
	if !strings.Contains(errOut, "1 line of file "+path+" skipped") {
		t.Errorf("got output %q", errOut)
	}
	code, out, _ = program.Output(t, "trace", "sub_1", "--file", path)
	if d := cmp.Diff("parley trace: file "+path+", 2026-11-01 10:00:00 UTC\n"+wantTrace, out); code != 0 || d != "" {
		t.Errorf("exit %d (-want +got):\n%s", code, d)
	}
	if code, out, _ := program.Output(t, "trace", "--file", path); code != 0 || !strings.Contains(out, "\nsub_2 of desk: failed") {
		t.Errorf("trace of the newest: exit %d\n%s", code, out)
	}
	code, out, _ = program.Output(t, "trace", "sub_2", "--file", path)
	if want := "sub_2 of desk: failed         5.00 s                        model_error: the model could not answer\n"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit %d, %s\nlacks %s", code, out, want)
	}
}

// TestJSONOfStatsAndTrace pins names that programs read.
func TestJSONOfStatsAndTrace(t *testing.T) {
	path := eventsFile(t, t.TempDir(), "e.jsonl", clitest.Events(t))
	code, out, _ := program.Output(t, "stats", "--file", path, "--json", "--agent", "desk", "--since", "2026-11-01T10:00:30")
	for _, want := range []string{
		`"source": "file ` + path, `"agent": "desk"`, `"since": "2026-11-01T10:00:30.000Z"`, `"events": 4`, `"failed": 1`, `"p50": 5000`,
		`"type": "model_error"`, `"hour": "2026-11-01T10:00:00.000Z"`, `"models": []`,
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %s\nlacks %s", code, out, want)
		}
	}
	code, out, _ = program.Output(t, "trace", "sub_1", "--file", path, "--json")
	for _, want := range []string{`"kind": "submission"`, `"state": "completed"`, `"id": "sub_1"`, `"durationMs": 7000`, `"recovered": true`, `"firstTokenMs": 250`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %s\nlacks %s", code, out, want)
		}
	}
}

func TestSourceIsFound(t *testing.T) {
	const agents = "agents: {echo: {model: demo/parrot}}\n"
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  string // of the output, on either stream
		code  int
	}{
		"what dev wrote":     {map[string]string{".parley/events.jsonl": ""}, nil, "parley stats: file .parley/events.jsonl\nNo events.\n", 0},
		"nothing":            {nil, nil, "there are no events: found neither ./parley.yaml nor ./.parley; name a configuration file with --config", 1},
		"the configured one": {map[string]string{"parley.yaml": agents + "events: {jsonl: {file: e.jsonl}}\n", "e.jsonl": "", ".parley/events.jsonl": ""}, nil, "file e.jsonl\n", 0},
		"not yet there":      {map[string]string{"parley.yaml": agents + "events: {jsonl: {file: e.jsonl}}\n"}, nil, "the file does not exist; a server that runs with ./parley.yaml makes it", 1},
		"nowhere":            {map[string]string{"parley.yaml": agents, "data/x": "", ".parley/events.jsonl": ""}, nil, "./parley.yaml configures no readable destination of events", 1},
		"dev before serve":   {map[string]string{"parley.yaml": agents + "events: {jsonl: {file: e.jsonl}}\n", ".parley/events.jsonl": ""}, nil, "file .parley/events.jsonl\n", 0},
		"dev beside a file":  {map[string]string{"parley.yaml": agents, ".parley/events.jsonl": ""}, nil, "file .parley/events.jsonl\n", 0},
		"a folder":           {map[string]string{"parley.yaml": agents, "d/events.jsonl": ""}, []string{"--data", "d"}, "file d/events.jsonl\n", 0},
		"other variables":    {map[string]string{"parley.yaml": agents + "auth: {bearerEnv: NOT_SET_HERE}\nevents: {jsonl: {file: e.jsonl}}\n", "e.jsonl": ""}, nil, "file e.jsonl\n", 0},
		"dev with a file":    {map[string]string{"x.yaml": agents + "bucket: {dir: d}\n", "d/events.jsonl": ""}, []string{"--config", "x.yaml"}, "file d/events.jsonl\n", 0},
		"the database first": {
			map[string]string{"parley.yaml": agents + "events: {jsonl: {file: e.jsonl}, clickhouse: {addresses: [\"127.0.0.1:1\"]}}\n", "e.jsonl": ""}, nil,
			"connect to clickhouse at 127.0.0.1:1", 1,
		},
		"a file before all": {map[string]string{"parley.yaml": agents, "e.jsonl": ""}, []string{"--file", "e.jsonl"}, "file e.jsonl\n", 0},
		"two":               {nil, []string{"--file", "e.jsonl", "--config", "x.yaml"}, "--config and --file exclude each other", cli.ExitUsage},
		"a bad address":     {nil, []string{"--clickhouse", "secret@host"}, "--clickhouse is not the address of a database; write for example", 1},
		"a broken file":     {map[string]string{"x.yaml": "agnts: {}\n"}, []string{"--config", "x.yaml"}, "did you mean agents?", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, content := range tt.files {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				clitest.Write(t, file, content)
			}
			code, out, errOut := program.Output(t, append([]string{"stats"}, tt.args...)...)
			if code != tt.code || !strings.Contains(out+errOut, tt.want) || strings.Contains(errOut, "secret@") {
				t.Errorf("exit %d, %q %q, want %d and %q", code, out, errOut, tt.code, tt.want)
			}
		})
	}
}

// An interrupted command does not read its file to the end.
func TestFileReadingEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	f, err := jsonl.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Write(t.Context(), clitest.Events(t)), f.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"stats", "--file", file}, {"trace", "sub_1", "--file", file}} {
		var out, errOut bytes.Buffer
		if code := program.Run(ctx, args, &out, &errOut); code != 1 || !strings.Contains(errOut.String(), "context canceled") || out.Len() > 0 {
			t.Errorf("%v: exit %d, %s%s", args, code, out.String(), errOut.String())
		}
	}
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]string{
		"24h": "2026-11-21T12:00:00.000Z", "90m": "2026-11-22T10:30:00.000Z", "7d": "2026-11-15T12:00:00.000Z", "2026-11-01": "2026-11-01T00:00:00.000Z",
		"2026-11-01T15:04": "2026-11-01T15:04:00.000Z", "2026-11-01T15:04:05": "2026-11-01T15:04:05.000Z", "2026-11-01T15:04:05+02:00": "2026-11-01T13:04:05.000Z",
	} {
		got, err := moment("since", s, now)
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"yesterday", "-1h", "1w", "2026-13-01", "99999999999999d", "d"} {
		if got, err := moment("since", s, now); err == nil || !strings.Contains(err.Error(), "--since") {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	if _, _, err := period("1h", "2h", now); err == nil {
		t.Error("a time that ends before it begins is accepted")
	}
}

const wantWaits = `

STEP                                 START    TOOK  TOKENS IN  OUT  COST  NOTE
sub_1 of desk: running                      5.20 s
├─ queue                             +0 ms    0 ms
└─ prompt: running                   +0 ms  5.20 s
   ├─ attempt 1: parked              +0 ms   50 ms
   │  └─ turn openai/gpt-5          +10 ms   10 ms
   ├─ tool approve: running         +20 ms  5.18 s
   │  ├─ wait approval-1            +30 ms  4.00 s                        signal sub_2
   │  ├─ wait approval-2: timeout  +4.10 s  1.00 s
   │  └─ wait approval-3: running  +5.20 s                                until 2026-11-01 11:00:00 UTC
   └─ attempt 1: running           +4.03 s  1.17 s
`

// Waits that ended by a signal and by a timer, and one in progress.
func TestTraceShowsWaits(t *testing.T) {
	start := conversation.TimeOf(time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC))
	var events []observability.Event
	add := func(ms conversation.Time, turn conversation.TurnID, p observability.Payload) {
		e := observability.Envelope{
			Version: observability.Version, ID: fmt.Sprintf("key/%d/0", len(events)), Seq: int64(len(events)), At: start + ms,
			Type: p.EventType(), Agent: "desk", Instance: "c1", Submission: "sub_1", Turn: turn,
		}
		if ms > 0 || turn != "" {
			e.Operation = "op_1"
		}
		events = append(events, observability.Event{Envelope: e, Payload: p})
	}
	begin := func(ms conversation.Time, name string) {
		add(ms, "turn_1", &observability.WaitStart{Name: name, ToolName: "approve", ToolCallID: "call_1", Until: start + 3_600_000})
	}
	end := func(ms conversation.Time, name, reason string, signal conversation.SubmissionID, took int64) {
		add(ms, "turn_1", &observability.Wait{Name: name, ToolName: "approve", ToolCallID: "call_1", Reason: reason, Signal: signal, DurationMs: took})
	}
	add(0, "", &observability.SubmissionQueued{Kind: "direct"})
	add(0, "", &observability.SubmissionRunning{Attempt: 1})
	add(0, "", &observability.OperationStart{Kind: "prompt"})
	events[2].Operation = "op_1"
	add(0, "", &observability.AgentStart{Attempt: 1})
	events[3].Operation = "op_1"
	gpt := observability.ModelRequest{Provider: "openai", Model: "gpt-5"}
	add(20, "turn_1", &observability.Turn{Purpose: "agent", DurationMs: 10, Request: gpt})
	add(20, "turn_1", &observability.ToolStart{ToolName: "approve", ToolCallID: "call_1"})
	begin(30, "approval-1")
	add(50, "", &observability.AgentEnd{Reason: observability.EndSuspended, DurationMs: 50})
	end(4030, "approval-1", observability.WaitSignal, "sub_2", 4000)
	add(4030, "", &observability.AgentStart{Attempt: 1})
	begin(4100, "approval-2")
	end(5100, "approval-2", observability.WaitTimeout, "", 1000)
	begin(5200, "approval-3")

	path := eventsFile(t, t.TempDir(), "events.jsonl", events)
	code, out, _ := program.Output(t, "trace", "sub_1", "--file", path)
	if d := cmp.Diff("parley trace: file "+path+", 2026-11-01 10:00:00 UTC"+wantWaits, out); code != 0 || d != "" {
		t.Errorf("exit %d (-want +got):\n%s", code, d)
	}
}
