package analyst

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/stats"
	"github.com/parleyrun/parley/storage"
)

// talked returns a data folder and its last submission. Its conversations have several turns, segments
// and the effects of a killed node.
func talked(t *testing.T) (data string, last conversation.SubmissionID) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	n := program.StartDev(t, data)
	send := func(id, body string) {
		at := n.URL(t, id)
		r := clitest.Admitted(t, at, id+body, body)
		clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
		last = r.SubmissionID
	}
	for i := range 3 {
		id := fmt.Sprintf("c%d", i)
		send(id, "hello")
		send(id, "time")
	}
	at := n.URL(t, "killed")
	r := clitest.Admitted(t, at, "k", "long 40")
	reader := clitest.NewReader(t, r.Offset)
	reader.Until(at, r.Offset, func(conversation.Chunk) bool { return strings.Contains(reader.Text.String(), " 9") })
	n.Kill()
	n = program.StartDev(t, data)
	at = n.URL(t, "killed")
	clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
	send("c0", "think")
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	return data, last
}

// durable returns the durable events of JSON lines by id. At most torn lines may be invalid, because a
// killed node may have written one partially.
func durable(t *testing.T, lines []byte, torn int) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range jsonl.Read(bytes.NewReader(lines)) {
		if bad := (*jsonl.LineError)(nil); errors.As(err, &bad) && torn > 0 {
			torn--
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !e.Live() {
			line, err := e.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			all[e.ID] = string(line)
		}
	}
	return all
}

// projected derives the events from the logs of a folder without the command.
func projected(t *testing.T, data string) map[string]string {
	t.Helper()
	all := map[string]string{}
	clitest.OnFolder(t, data, func(b storage.Bucket) { projectAll(t, b, all) })
	return all
}

// projectAll adds the events of all conversations of talked.
func projectAll(t *testing.T, b storage.Bucket, all map[string]string) {
	t.Helper()
	logs := storage.NewLogs(b, nil)
	for _, id := range []string{"c0", "c1", "c2", "killed"} {
		key := conversation.Address{Agent: "assistant", ID: id}.Key()
		last, err := logs.Tail(t.Context(), key, -1)
		if err != nil || last < 0 {
			t.Fatal(last, err)
		}
		src := observability.Source{Key: key}
		for seq := range last + 1 {
			batches, err := logs.Range(t.Context(), key, seq, seq)
			if err != nil {
				t.Fatal(err)
			}
			records, err := conversation.DecodeRecords(batches[0].Lines)
			if err != nil {
				t.Fatal(err)
			}
			batch := conversation.Batch{Offset: conversation.Offset(seq), Records: records}
			for _, e := range observability.Project(src, batch, nil) {
				line, err := e.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				all[e.ID] = string(line)
			}
			src = src.After(batch)
		}
	}
}

// sentEvents waits until the node of a folder has sent all events. Those that a killed node had not
// sent follow after the next start.
func sentEvents(t *testing.T, data string, want int) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
	defer cancel()
	n := program.StartDev(t, data)
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		lines, err := os.ReadFile(filepath.Join(data, cli.DevEvents))
		if err != nil {
			t.Fatal(err)
		}
		if got := durable(t, lines, 1); len(got) >= want || ctx.Err() != nil {
			if err := n.End(syscall.SIGTERM); err != nil {
				t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
			}
			return got
		}
		<-poll.C
	}
}

// The events that a node sent while it ran and was killed, the events in the logs, and the replayed
// events are equal.
func TestReplayMakesTheSameEvents(t *testing.T) {
	t.Parallel()
	data, last := talked(t)
	want := projected(t, data)
	if len(want) < 50 {
		t.Fatalf("got %d events in the logs", len(want))
	}
	if d := cmp.Diff(want, sentEvents(t, data, len(want))); d != "" {
		t.Errorf("sent events differ from the logs (-logs +sent):\n%s", d)
	}
	code, out, errOut := program.Output(t, "events", "replay", "--data", data, "--to", "stdout")
	if d := cmp.Diff(want, durable(t, []byte(out), 0)); code != 0 || d != "" {
		t.Errorf("exit %d, %s\nreplayed events differ from the logs (-logs +replay):\n%s", code, errOut, d)
	}
	if message := fmt.Sprintf("%d events stored, of 4 conversations", len(want)); !strings.Contains(errOut, message) {
		t.Errorf("got output %q, want %q", errOut, message)
	}
	code, out, errOut = program.Output(t, "events", "replay", "--data", data, "--dry-run", "--agent", "nobody")
	if code != 0 || out != "" || !strings.Contains(errOut, "0 events counted, of 0 conversations") {
		t.Errorf("exit %d, %q %q", code, out, errOut)
	}
	code, out, _ = program.Output(t, "trace", string(last), "--file", filepath.Join(data, cli.DevEvents))
	if code != 0 || !strings.Contains(out, "of assistant: completed") || !strings.Contains(out, "turn demo/parrot") {
		t.Errorf("exit %d, %s", code, out)
	}
}

// Two replays into an empty database store each event once.
func TestReplayFillsADatabase(t *testing.T) {
	t.Parallel()
	server := clickhousetest.Start(t)
	data, last := talked(t)
	want := projected(t, data)
	sentEvents(t, data, len(want))
	dsn := server.DSN(server.Database(t))
	code, _, errOut := program.Output(t, "stats", "--clickhouse", dsn)
	if code != 1 || !strings.Contains(errOut, "parley events migrate") {
		t.Errorf("an empty database: exit %d, %s", code, errOut)
	}
	for range 2 {
		code, out, errOut := program.Output(t, "events", "replay", "--data", data, "--clickhouse", dsn)
		if code != 0 || out != "" {
			t.Fatalf("exit %d, %s%s", code, out, errOut)
		}
	}
	opts, err := cli.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db, err := clickhouse.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got, rows := map[string]string{}, 0
	for e, err := range db.Events(t.Context(), clickhouse.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		line, err := e.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		got[e.ID] = string(line)
		rows++
	}
	if d := cmp.Diff(want, got); d != "" || rows != len(want) {
		t.Errorf("%d rows, want %d (-logs +database):\n%s", rows, len(want), d)
	}
	sameAnswers(t, data, dsn, last)
}

// sameAnswers compares queries of the database and of the file of a folder.
func sameAnswers(t *testing.T, data, dsn string, last conversation.SubmissionID) {
	t.Helper()
	file := filepath.Join(data, cli.DevEvents)
	for _, args := range [][]string{{}, {"--agent", "assistant"}, {"--agent", "nobody"}, {"--until", "2020-01-01"}} {
		var sums [2]stats.Summary
		for i, source := range [][]string{{"--file", file}, {"--clickhouse", dsn}} {
			code, out, errOut := program.Output(t, slices.Concat([]string{"stats", "--json"}, source, args)...)
			if err := json.Unmarshal([]byte(out), &sums[i]); err != nil || code != 0 {
				t.Fatalf("exit %d, %v, %s", code, err, errOut)
			}
			// Recoveries may be live events, which no log has.
			sums[i].Events -= sums[i].Recoveries
			sums[i].Recoveries = 0
		}
		if d := cmp.Diff(sums[0], sums[1]); d != "" {
			t.Errorf("stats %v (-file +database):\n%s", args, d)
		}
	}
	var trees [2]string
	for i, source := range [][]string{{"--file", file}, {"--clickhouse", dsn}} {
		code, out, errOut := program.Output(t, slices.Concat([]string{"trace", string(last)}, source)...)
		if code != 0 {
			t.Fatalf("exit %d, %s", code, errOut)
		}
		_, trees[i], _ = strings.Cut(out, "\n")
	}
	if d := cmp.Diff(trees[0], trees[1]); d != "" || !strings.Contains(trees[0], "turn demo/parrot") {
		t.Errorf("trace (-file +database):\n%s", d)
	}
}

// A replay of a corrupt log stores its readable part and reports the rest.
func TestReplayOfCorruptLog(t *testing.T) {
	t.Parallel()
	data, _ := talked(t)
	want := projected(t, data)
	key := conversation.Address{Agent: "assistant", ID: "c1"}.Key()
	clitest.OnFolder(t, data, func(b storage.Bucket) {
		if len(clitest.Keys(t, b, storage.FolderOf(key)+"seg/")) == 0 {
			t.Error("got no segment")
		}
		for _, k := range clitest.Keys(t, b, storage.FolderOf(key)) {
			if err := b.Put(t.Context(), k, storage.Bytes([]byte("damage"))); err != nil {
				t.Fatal(err)
			}
		}
	})
	code, out, errOut := program.Output(t, "events", "replay", "--data", data, "--to", "stdout")
	got := durable(t, []byte(out), 0)
	maps.DeleteFunc(want, func(id, _ string) bool { return strings.HasPrefix(id, string(key)) })
	maps.DeleteFunc(got, func(id, _ string) bool { return strings.HasPrefix(id, string(key)) })
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the other conversations (-want +got):\n%s", d)
	}
	if code != cli.ExitUnknown || !strings.Contains(errOut, "1 log could not be read to the end") || !strings.Contains(errOut, string(key)) {
		t.Errorf("exit %d, %s", code, errOut)
	}
}

func TestReplayNeedsADestination(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if code, _, errOut := program.Output(t, "run", clitest.Write(t, filepath.Join(dir, "echo.yaml"), "model: demo/parrot\n"), "--data", data, "--id", "a", "-m", "hello"); code != 0 {
		t.Fatal(errOut)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "there is no destination"},
		{[]string{"--to", "kafka"}, `--to "kafka" is not known; use clickhouse, jsonl or stdout`},
		{[]string{"--to", "kafka", "--dry-run"}, `--to "kafka" is not known`},
		{[]string{"--to", "stdout", "--file", "x"}, "--file names another destination than --to stdout"},
		{[]string{"--to", "jsonl", "--clickhouse", "clickhouse://127.0.0.1:1"}, "--clickhouse names another destination than --to jsonl"},
		{[]string{"--to", "clickhouse"}, "configures no ClickHouse"},
		{[]string{"--since", "1h", "--until", "2h"}, "--since 1h is not before --until 2h"},
		{[]string{"--clickhouse", "clickhouse://127.0.0.1:1"}, "connect to clickhouse at 127.0.0.1:1"},
	} {
		code, _, errOut := program.Output(t, append([]string{"events", "replay", "--data", data}, tt.args...)...)
		if code != 1 || !strings.Contains(errOut, tt.want) {
			t.Errorf("%v: exit %d, %s, want %q", tt.args, code, errOut, tt.want)
		}
	}
}

func TestEventsSchemaAndMigrate(t *testing.T) {
	code, out, _ := program.Output(t, "events", "schema")
	if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, "submission_settled") {
		t.Errorf("exit %d, %s", code, out)
	}
	server := clickhousetest.Start(t)
	database := server.Database(t)
	file := clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("events: {clickhouse: {addresses: [%q], database: %s}}", server.Addr(), database))
	for range 2 {
		code, out, errOut := program.Output(t, "events", "migrate", "--config", file)
		if code != 0 || !strings.Contains(out, "database "+database+" of clickhouse at "+server.Addr()+" has the schema of this version.") {
			t.Errorf("exit %d, %s%s", code, out, errOut)
		}
	}
	// Commands that read never create the schema, even with the permission to do so.
	for range 2 {
		if code, _, errOut := program.Output(t, "stats", "--clickhouse", server.DSN("nowhere")); code != 1 || !strings.Contains(errOut, "nowhere does not exist") {
			t.Errorf("exit %d, %s", code, errOut)
		}
	}
	if code, out, errOut := program.Output(t, "stats", "--config", file); code != 0 || !strings.Contains(out, "No events.") {
		t.Errorf("exit %d, %s%s", code, out, errOut)
	}
	// A database named by its address alone keeps its retention.
	file = clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("events: {clickhouse: {addresses: [%q], database: %s, ttlDays: 365}}", server.Addr(), database))
	data := filepath.Join(t.TempDir(), "data")
	dsn := server.DSN(database)
	for _, args := range [][]string{
		{"events", "migrate", "--config", file},
		{"events", "migrate", "--clickhouse", dsn},
		{"run", clitest.Write(t, filepath.Join(t.TempDir(), "echo.yaml"), "model: demo/parrot\n"), "--data", data, "--id", "a", "-m", "hello"},
		{"events", "replay", "--data", data, "--clickhouse", dsn},
	} {
		if code, _, errOut := program.Output(t, args...); code != 0 {
			t.Fatalf("%v: exit %d, %s", args, code, errOut)
		}
	}
	const table = "SELECT engine_full FROM system.tables WHERE database = '%s' AND name = 'events_raw'"
	if kept := server.Ask(t, fmt.Sprintf(table, database)); !strings.Contains(kept, "toIntervalDay(365)") {
		t.Errorf("events_raw is now %s", kept)
	}
	file = clitest.EchoConfig(t, t.TempDir())
	if code, _, errOut := program.Output(t, "events", "migrate", "--config", file); code != 1 || !strings.Contains(errOut, "configures no ClickHouse; add for example") {
		t.Errorf("exit %d, %s", code, errOut)
	}
}
