package analyst

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/clickhousetest"
)

func TestReplayMistakesNameRemedy(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"empty", "other"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Write(t, "other/file", "")
	n := program.StartDev(t, "held")
	if err := os.Remove("held/read.address"); err != nil { // simulates a server without a socket
		t.Fatal(err)
	}
	fresh := program.StartDev(t, "fresh")
	if err := fresh.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := program.Output(t, "run", clitest.Write(t, "echo.yaml", "model: demo/parrot\n"), "--data", "data", "--id", "a", "-m", "hello"); code != 0 {
		t.Fatal(errOut)
	}
	clitest.Write(t, "plain.yaml", "agents: {echo: {model: demo/parrot}}\n")
	dry := func(args ...string) []string { return append(args, "--dry-run") }
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no folder":        {dry("--data", "nowhere"), 1, "nowhere is not a folder; name an existing one with --data"},
		"a file":           {dry("--data", "other/file"), 1, "other/file is not a folder; name an existing one with --data"},
		"an empty folder":  {dry("--data", "empty"), 1, "empty is not a data folder, it has no conversations; name another one with --data"},
		"another folder":   {dry("--data", "other"), 1, "other is not a data folder"},
		"no name":          {dry("--data", ""), 1, "--data is empty; name the data folder"},
		"in use":           {dry("--data", "held"), cli.ExitRefused, "held is in use by another process: stop that process, such as parley dev or serve, and retry, or name another folder with --data ("},
		"no conversations": {dry("--data", "fresh"), 0, "folder fresh has no conversations; name another bucket with --data or --config."},
		"another agent":    {dry("--data", "data", "--agent", "nobody"), 0, `folder data has no conversation of agent "nobody"; omit --agent`},
		"another time":     {dry("--data", "data", "--until", "2020-01-01"), 0, "No event is in that period; check --since and --until, which are in UTC."},
		"the future":       {dry("--data", "data", "--since", "2999-01-01"), 1, "--since 2999-01-01 is in the future, now is "},
		"no configuration": {nil, 1, "found neither ./parley.yaml nor ./.parley; name a configuration file with --config or a data folder with --data"},
		"no database":      {[]string{"--data", "data", "--to", "clickhouse"}, 1, "a data folder configures no ClickHouse; name one, for example --clickhouse clickhouse://"},
		"none configured":  {[]string{"--config", "plain.yaml", "--to", "clickhouse"}, 1, "plain.yaml configures no ClickHouse; add for example events: {clickhouse: {addresses: [\"127.0.0.1:9000\"]}}, or name a database with --clickhouse"},
		"no such place":    {[]string{"--data", "data", "--to", "jsonl", "--file", "no/e.jsonl"}, 1, "name another file with --file, in a folder that exists"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := program.Output(t, append([]string{"events", "replay"}, tt.args...)...)
			if code != tt.code || !strings.Contains(errOut, tt.want) || out != "" {
				t.Errorf("exit %d, %q %q; want exit %d and %q", code, out, errOut, tt.code, tt.want)
			}
		})
	}
	for dir, want := range map[string]int{"empty": 0, "other": 1} {
		if files, err := os.ReadDir(dir); err != nil || len(files) != want {
			t.Errorf("got %s with %v, %v; want a folder without data unchanged", dir, files, err)
		}
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func TestFilesWithoutEvents(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Write(t, "empty.jsonl", "")
	clitest.Write(t, "torn.jsonl", `{"v":3,"ty`)
	clitest.Write(t, "words", "hello\nworld\n")
	clitest.Write(t, "list.json", "[{\"v\":3},\n{\"v\":3}]\n")
	eventsFile(t, ".", "events.jsonl", clitest.Events(t))
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	const none, others = "No events.\nEvents arrive about a second after a message", "No events.\nOmit --agent, --since or --until"
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an empty file":     {[]string{"--file", "empty.jsonl"}, 0, none},
		"a torn line":       {[]string{"--file", "torn.jsonl"}, 0, none},
		"another agent":     {[]string{"--file", "events.jsonl", "--agent", "nobody"}, 0, others},
		"another time":      {[]string{"--file", "events.jsonl", "--until", "2020-01-01"}, 0, others},
		"as it was printed": {[]string{"--file", "events.jsonl", "--since", "2026-11-01 10:00:00"}, 0, "20 events"},
		"the future":        {[]string{"--file", "events.jsonl", "--since", "2999-01-01"}, 1, "--since 2999-01-01 is in the future, now is "},
		"a wrong form":      {[]string{"--file", "events.jsonl", "--since", "tomorrow"}, 1, `--since "tomorrow" is not a time; write a duration before now`},
		"words":             {[]string{"--file", "words"}, 1, "file words has no events, which are lines of JSON; name another file with --file (2 other lines, the first one: file words: line 1: "},
		"a list":            {[]string{"--file", "list.json"}, 1, "file list.json has no events"},
		"a folder":          {[]string{"--file", "folder"}, 1, "folder is a folder; name a file in it, for example --file folder/events.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := program.Output(t, append([]string{"stats"}, tt.args...)...)
			if code != tt.code || !strings.Contains(out+errOut, tt.want) {
				t.Errorf("exit %d, %q %q; want exit %d and %q", code, out, errOut, tt.code, tt.want)
			}
		})
	}
	for file, want := range map[string]string{"words": "file words has no events", "empty.jsonl": "has no event of submission sub_9; check the id"} {
		if code, _, errOut := program.Output(t, "trace", "sub_9", "--file", file); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("trace of %s: exit %d, %q", file, code, errOut)
		}
	}
}

// For a server that is down, speaks another protocol or has no tables, the remedy precedes the
// driver's error.
func TestDatabaseMistakesNameRemedy(t *testing.T) {
	server := clickhousetest.Start(t)
	dir := t.TempDir()
	configured := func(name, clickhouse string) string {
		return clitest.Write(t, filepath.Join(dir, name), fmt.Sprintf("agents: {echo: {model: demo/parrot}}\nevents: {clickhouse: {addresses: [%s}}\n", clickhouse))
	}
	away := configured("away.yaml", `"127.0.0.1:1"]`)
	web := configured("web.yaml", fmt.Sprintf("%q], protocol: http", server.Addr()))
	const native = "is this the port of the native protocol (9000, with TLS 9440; HTTP has 8123 and 8443), and does a firewall let it through? ("
	const http = "is this the port of the HTTP protocol (8123, with TLS 8443; the native protocol has 9000 and 9440), and does a firewall let it through? ("
	for _, command := range [][]string{{"stats"}, {"trace", "sub_1"}, {"events", "migrate"}} {
		for _, tt := range []struct {
			source []string
			begins string
			want   string
		}{
			{[]string{"--clickhouse", "clickhouse://127.0.0.1:1"}, "parley: --clickhouse: connect to clickhouse at 127.0.0.1:1", native},
			{[]string{"--config", away}, "parley: events.clickhouse in " + away + ": connect to clickhouse at 127.0.0.1:1", native},
			{[]string{"--clickhouse", "http://u:secret@" + server.Addr()}, "parley: --clickhouse: connect to clickhouse at " + server.Addr(), http},
			{[]string{"--config", web}, "parley: events.clickhouse in " + web + ": connect to clickhouse at " + server.Addr(), http},
		} {
			code, _, errOut := program.Output(t, append(command, tt.source...)...)
			if code != 1 || !strings.HasPrefix(errOut, tt.begins) || !strings.Contains(errOut, tt.want) || strings.Contains(errOut, "secret") {
				t.Errorf("%v %v: exit %d, %q; want %q and %q", command, tt.source, code, errOut, tt.begins, tt.want)
			}
		}
	}
	code, _, errOut := program.Output(t, "stats", "--clickhouse", server.DSN("nowhere"))
	if code != 1 || !strings.Contains(errOut, "database nowhere of clickhouse at "+server.Addr()+" has no tables for events; a server that sends events there creates them, or run parley events migrate with this --clickhouse (") {
		t.Errorf("no tables: exit %d, %q", code, errOut)
	}
	code, _, errOut = program.Output(t, "events", "migrate", "--config", filepath.Join(dir, "none.yaml"))
	if code != 1 || !strings.Contains(errOut, "none.yaml: file does not exist; name another file") {
		t.Errorf("no configuration: exit %d, %q", code, errOut)
	}
}

func TestSinceIsNotInTheFuture(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	if _, _, err := period("2026-11-22T12:00", "2999-01-01", now); err != nil {
		t.Errorf("now: %v", err)
	}
	const want = "--since 2026-11-22 12:01 is in the future, now is 2026-11-22T12:00 in UTC"
	if _, _, err := period("2026-11-22 12:01", "", now); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("in a minute: %v, want %q", err, want)
	}
}
