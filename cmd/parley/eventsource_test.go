package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/jsonl"
)

// handmade is a submission with a tool, an attempt that was lost and a model that failed
// first, and one that failed for good.
func handmade(t *testing.T) []observability.Event {
	t.Helper()
	start, err := time.Parse(time.RFC3339, "2026-11-01T10:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	var list []observability.Event
	own := observability.Envelope{Version: observability.Version, Agent: "desk", Instance: "c1", Submission: "sub_1"}
	add := func(ms int64, operation, turn string, p observability.Payload) {
		e := own
		e.Operation, e.Turn = operation, conversation.TurnID(turn)
		e.At, e.Type, e.Seq = conversation.TimeOf(start)+conversation.Time(ms), p.EventType(), int64(len(list))
		e.ID = "key/" + string(rune('a'+len(list))) + "/0"
		list = append(list, observability.Event{Envelope: e, Payload: p})
	}
	gpt := observability.ModelRequest{Provider: "openai", Model: "gpt-5"}
	used := func(in, out int64, cost float64) *observability.Usage {
		return &observability.Usage{Input: in, Output: out, CacheRead: 1000, Total: in + out + 1000, Cost: observability.Cost{Total: cost}}
	}
	add(0, "", "", &observability.SubmissionQueued{Kind: "direct"})
	add(3, "", "", &observability.SubmissionRunning{Attempt: 1, QueuedMs: 3})
	add(3, "op_1", "", &observability.OperationStart{Kind: "prompt"})
	add(3, "op_1", "", &observability.AgentStart{Attempt: 1})
	add(10, "op_1", "turn_1", &observability.TurnStart{Purpose: "agent", Model: "openai/gpt-5"})
	add(5000, "op_1", "", &observability.AgentEnd{Reason: "lost"})
	add(5000, "", "", &observability.SubmissionRunning{Attempt: 2, Resumed: true, QueuedMs: 5000, Recovered: true})
	add(5000, "op_1", "", &observability.AgentStart{Attempt: 2})
	add(5010, "op_1", "turn_2", &observability.TurnStart{Purpose: "agent", Model: "openai/gpt-5"})
	add(6210, "op_1", "turn_2", &observability.Turn{
		Purpose: "agent", DurationMs: 1200, FirstTokenMs: 250, Retries: 2, Request: gpt,
		Response: observability.ModelResponse{Usage: used(12_000, 40, 0.0125)},
	})
	add(6210, "op_1", "turn_2", &observability.ToolStart{ToolName: "look_up", ToolCallID: "call_1"})
	add(6250, "op_1", "turn_2", &observability.Tool{ToolName: "look_up", ToolCallID: "call_1", DurationMs: 40})
	add(7000, "op_1", "turn_3", &observability.Turn{Purpose: "agent", DurationMs: 700, FirstTokenMs: 90, Request: gpt, Response: observability.ModelResponse{Usage: used(13_000, 200, 1.5)}})
	add(7000, "op_1", "", &observability.AgentEnd{Reason: "settled", DurationMs: 2000})
	add(7000, "op_1", "", &observability.Operation{Kind: "prompt", DurationMs: 6997})
	add(7000, "", "", &observability.SubmissionSettled{Kind: "direct", Outcome: "completed", Attempt: 2, TotalMs: 7000, AdmissionMs: 6})
	own.Submission, own.Instance = "sub_2", "c2"
	broke := &observability.Error{Type: "model_error", Message: "the model\ncould not answer"}
	add(60_000, "", "", &observability.SubmissionQueued{Kind: "direct"})
	add(60_000, "op_2", "", &observability.OperationStart{Kind: "prompt"})
	add(65_000, "op_2", "", &observability.Operation{Kind: "prompt", DurationMs: 5000, IsError: true, Error: broke})
	add(65_000, "", "", &observability.SubmissionSettled{Kind: "direct", Outcome: "failed", Attempt: 1, TotalMs: 5000, Error: broke})
	return list
}

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
1 attempt after a loss

SUBMISSIONS  COUNT  SHARE OF SETTLED
queued           2
completed        1            50.0 %
failed           1            50.0 %
aborted          -                 -

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
`

const wantTrace = `
STEP                                START    TOOK  TOKENS IN  OUT     COST  NOTE
sub_1 of desk: completed                   7.00 s     27,000  240    $1.51  2 attempts
├─ queue                            +0 ms    3 ms
└─ prompt                           +3 ms  7.00 s     27,000  240    $1.51
   ├─ attempt 1: lost               +3 ms
   │  └─ turn openai/gpt-5: lost   +10 ms
   └─ attempt 2                   +5.00 s  2.00 s     27,000  240    $1.51  after a loss
      ├─ turn openai/gpt-5        +5.01 s  1.20 s     13,000   40  $0.0125  first token after 250 ms, retry 2
      │  └─ tool look_up          +6.21 s   40 ms
      └─ turn openai/gpt-5        +6.30 s  700 ms     14,000  200    $1.50  first token after 90 ms
`

func TestStatsAndTraceOfAFile(t *testing.T) {
	dir := t.TempDir()
	events := handmade(t)
	// A file that was rotated, with what was sent twice, and a line that is none.
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
	code, out, errOut := output(t, "stats", "--file", path)
	if d := cmp.Diff("parley stats: file "+path+wantStats, out); code != 0 || d != "" {
		t.Errorf("exit %d (-want +got):\n%s", code, d)
	}
	if !strings.Contains(errOut, "1 line of file "+path+" passed over") {
		t.Errorf("says %q", errOut)
	}
	code, out, _ = output(t, "trace", "sub_1", "--file", path)
	if d := cmp.Diff("parley trace: file "+path+", 2026-11-01 10:00:00 UTC\n"+wantTrace, out); code != 0 || d != "" {
		t.Errorf("exit %d (-want +got):\n%s", code, d)
	}
	code, out, _ = output(t, "trace", "sub_2", "--file", path)
	if want := "sub_2 of desk: failed         5.00 s                        model_error: the model could not answer\n"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit %d, %s\nlacks %s", code, out, want)
	}
}

// TestJSONOfStatsAndTrace pins names that programs read.
func TestJSONOfStatsAndTrace(t *testing.T) {
	path := eventsFile(t, t.TempDir(), "e.jsonl", handmade(t))
	code, out, _ := output(t, "stats", "--file", path, "--json", "--agent", "desk", "--since", "2026-11-01T10:00:30")
	for _, want := range []string{
		`"source": "file ` + path, `"agent": "desk"`, `"since": "2026-11-01T10:00:30.000Z"`, `"events": 4`, `"failed": 1`, `"p50": 5000`,
		`"type": "model_error"`, `"hour": "2026-11-01T10:00:00.000Z"`, `"models": []`,
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %s\nlacks %s", code, out, want)
		}
	}
	code, out, _ = output(t, "trace", "sub_1", "--file", path, "--json")
	for _, want := range []string{`"kind": "submission"`, `"state": "completed"`, `"id": "sub_1"`, `"durationMs": 7000`, `"recovered": true`, `"firstTokenMs": 250`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, %s\nlacks %s", code, out, want)
		}
	}
}

// TestSourceIsFound starts in folders that have one thing or another.
func TestSourceIsFound(t *testing.T) {
	const agents = "agents: {echo: {model: demo/parrot}}\n"
	for name, tt := range map[string]struct {
		files map[string]string
		args  []string
		want  string // of what is printed, on either stream
		code  int
	}{
		"what dev wrote":     {map[string]string{".parley/events.jsonl": ""}, nil, "parley stats: file .parley/events.jsonl\nNo events.\n", 0},
		"nothing":            {nil, nil, "there are no events in .parley/events.jsonl: the file does not exist; name a configuration with --config", 1},
		"the configured one": {map[string]string{"parley.yaml": agents + "events: {jsonl: {file: e.jsonl}}\n", "e.jsonl": "", ".parley/events.jsonl": ""}, nil, "file e.jsonl\n", 0},
		"not yet there":      {map[string]string{"parley.yaml": agents + "events: {jsonl: {file: e.jsonl}}\n"}, nil, "the file does not exist; a server that runs with ./parley.yaml makes it", 1},
		"nowhere":            {map[string]string{"parley.yaml": agents, ".parley/events.jsonl": ""}, nil, "./parley.yaml sends events nowhere that they can be read", 1},
		"dev with a file":    {map[string]string{"x.yaml": agents + "bucket: {dir: d}\n", "d/events.jsonl": ""}, []string{"--config", "x.yaml"}, "file d/events.jsonl\n", 0},
		"the database first": {
			map[string]string{"parley.yaml": agents + "events: {jsonl: {file: e.jsonl}, clickhouse: {addresses: [\"127.0.0.1:1\"]}}\n", "e.jsonl": ""}, nil,
			"connect to clickhouse at 127.0.0.1:1", 1,
		},
		"a file before all": {map[string]string{"parley.yaml": agents, "e.jsonl": ""}, []string{"--file", "e.jsonl"}, "file e.jsonl\n", 0},
		"two":               {nil, []string{"--file", "e.jsonl", "--config", "x.yaml"}, "[config file]", 1},
		"a bad address":     {nil, []string{"--clickhouse", "secret@host"}, "--clickhouse is no address of a database; write for example", 1},
		"a broken file":     {map[string]string{"x.yaml": "agnts: {}\n"}, []string{"--config", "x.yaml"}, "did you mean agents?", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for file, content := range tt.files {
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, file, content)
			}
			code, out, errOut := output(t, append([]string{"stats"}, tt.args...)...)
			if code != tt.code || !strings.Contains(out+errOut, tt.want) || strings.Contains(errOut, "secret@") {
				t.Errorf("exit %d, %q %q, want %d and %q", code, out, errOut, tt.code, tt.want)
			}
		})
	}
}

// TestFileReadingEnds: who interrupts a command does not wait for the end of a file.
func TestFileReadingEnds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	f, err := jsonl.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Write(t.Context(), handmade(t)), f.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"stats", "--file", file}, {"trace", "sub_1", "--file", file}} {
		var out, errOut bytes.Buffer
		if code := run(ctx, args, &out, &errOut); code != 1 || !strings.Contains(errOut.String(), "context canceled") || out.Len() > 0 {
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

func TestParseDSN(t *testing.T) {
	for dsn, want := range map[string]clickhouse.Options{
		"clickhouse://u:p%40@ch:9001/words":     {Addresses: []string{"ch:9001"}, Username: "u", Password: "p@", Database: "words"},
		"clickhouse://a,b:9001":                 {Addresses: []string{"a:9000", "b:9001"}},
		"clickhouse://[fd00::1]":                {Addresses: []string{"[fd00::1]:9000"}},
		"clickhouse://ch/?secure=true":          {Addresses: []string{"ch:9440"}},
		"clickhouse://ch?secure=1":              {Addresses: []string{"ch:9440"}},
		"http://ch/words":                       {Addresses: []string{"ch:8123"}, HTTP: true, Database: "words"},
		"https://reader@ch:8444/words?secure=0": {Addresses: []string{"ch:8444"}, HTTP: true, Username: "reader", Database: "words"},
	} {
		got, err := parseDSN(dsn)
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		if secure := strings.Contains(dsn, "https:") || strings.Contains(dsn, "secure=true") || strings.Contains(dsn, "secure=1"); secure != (got.TLS != nil) {
			t.Errorf("%s: TLS %v", dsn, got.TLS)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(clickhouse.Options{}, "TLS")); d != "" {
			t.Errorf("%s (-want +got):\n%s", dsn, d)
		}
	}
	for _, dsn := range []string{"", "ch:9000", "mysql://u:secret@ch/words", "clickhouse://", "clickhouse://u:secret@ch:x y", "clickhouse://u:secret@ch?secure=yes"} {
		if _, err := parseDSN(dsn); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for got, want := range map[string]string{
		number(0): "-", number(999): "999", number(1000): "1,000", number(-1234567): "-1,234,567",
		dollars(0): "-", dollars(0.00001): "<$0.0001", dollars(0.0125): "$0.0125", dollars(1.999): "$2.00", dollars(1234.5): "$1,234.50", dollars(0.99999): "$1.0000",
		took(0): "0 ms", took(999): "999 ms", took(1000): "1.00 s", took(61_000): "1m 01s", took(3_661_000): "1h 01m",
		oneLine("a\n\x1b[31mb", 9): "a [31mb", oneLine("abcdef", 4): "abc…",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
