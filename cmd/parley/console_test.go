package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/console"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/waiting"
)

// answered returns a response of the console API as JSON.
func (p *process) answered(t *testing.T, name string, query url.Values) map[string]any {
	t.Helper()
	base, err := url.Parse(p.Base)
	if err != nil {
		t.Fatal(err)
	}
	at := url.URL{Scheme: base.Scheme, Host: base.Host, Path: console.Prefix + "api/" + name, RawQuery: query.Encode()}
	resp, err := http.Get(at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %d %s, %v", name, resp.StatusCode, body, err)
	}
	return clitest.Into[map[string]any](t, string(body))
}

// printed returns the JSON output of a command, without its source.
func printed(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, out, errOut := program.Output(t, args...)
	if code != 0 {
		return nil // There may be no events yet.
	}
	if !json.Valid([]byte(out)) {
		t.Fatalf("%q prints %s %s", args, out, errOut)
	}
	v := clitest.Into[map[string]any](t, out)
	for _, of := range []string{"source", "agent"} {
		delete(v, of)
	}
	return v
}

// If a configuration sends events to ClickHouse, the metrics and timelines of the console equal the
// output of "parley stats" and "parley trace" for the database, for every folder.
func TestConsoleOverADatabase(t *testing.T) {
	server := clickhousetest.Start(t)
	database := server.Database(t)
	messages, last := 0, conversation.SubmissionID("")
	var node *process
	var file string
	for range 2 { // folders
		dir := t.TempDir()
		file = clitest.Write(t, filepath.Join(dir, "parley.yaml"), fmt.Sprintf(`
listen: 127.0.0.1:0
bucket: {dir: %q}
events: {clickhouse: {addresses: [%q], database: %s}}
agents:
  echo: {mounts: [/agents/echo], model: demo/parrot, events: {content: true}}
  other: {mounts: [/agents/other], model: demo/parrot}
`, filepath.Join(dir, "data"), server.Addr(), database))
		node = startProgram(t, "dev", "--quiet", "--config", file)
		for range 2 {
			messages++
			last = clitest.Admitted(t, node.URL(t, "one"), fmt.Sprint("key ", messages), "think").SubmissionID
		}
		waiting.Until(t, "every outcome in the database", func() bool {
			stats := printed(t, "stats", "--json", "--config", file)
			outcomes, ok := stats["submissions"].(map[string]any)
			return ok && outcomes["completed"] == float64(messages)
		})
		if messages == 2 {
			if err := node.End(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Live events have no fixed time of arrival.
	for _, of := range []string{"", "echo", "other"} {
		args := []string{"stats", "--json", "--config", file}
		if of != "" {
			args = append(args, "--agent", of)
		}
		waiting.Until(t, "the same figures", func() bool {
			return cmp.Diff(printed(t, args...), node.answered(t, "figures", url.Values{"agent": {of}})) == ""
		})
	}
	waiting.Until(t, "the same tree, with a prompt", func() bool {
		timeline := node.answered(t, "submission", url.Values{"id": {string(last)}})
		requests := timeline["requests"].([]any)
		if len(requests) != 1 || requests[0].(map[string]any)["input"] == nil {
			return false
		}
		return cmp.Diff(printed(t, "trace", string(last), "--json", "--config", file), timeline["trace"]) == ""
	})
}
