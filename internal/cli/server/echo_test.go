package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli/clitest"
)

// A vendor repeats the whole request in its error, including the key and the system prompt.
func TestVendorEchoIsNotWritten(t *testing.T) {
	const key, prompt, word = "sk-echoed-secret-key", "You keep a secret recipe.", "marzipan"
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"code":"bad_prompt","message":%q}}`, r.Header.Get("Authorization")+" sent "+string(body))
	}))
	defer vendor.Close()
	t.Setenv("OPENAI_API_KEY", key)
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	dir := t.TempDir()
	file, events := filepath.Join(dir, "parley.yaml"), filepath.Join(dir, "events.jsonl")
	conf := fmt.Sprintf(`
listen: 127.0.0.1:0
bucket: {dir: %q}
events: {jsonl: {file: %q}}
agents:
  shown: {model: openai/m, mounts: [/shown], instructions: %q, events: {content: true}}
  unshown: {model: openai/m, mounts: [/unshown], instructions: %q}
`, filepath.Join(dir, "data"), events, prompt, prompt)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	for _, agent := range []string{"unshown", "shown"} {
		n := program.Start(t, "serve", "--quiet", "--config", file)
		n.Base = n.Base[:strings.LastIndex(n.Base, "/")] + "/" + agent
		at := n.URL(t, "c")
		r := clitest.Admitted(t, at, "1", word)
		clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
		written["transcript of "+agent] = fmt.Sprint(clitest.History(t, at))
		if err := n.End(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		log := n.Logs.String()
		written["log of "+agent] = log
		if shown := strings.Contains(log, word) || strings.Contains(log, "recipe"); shown != (agent == "shown") {
			t.Errorf("whether the log of %s repeats the request is %v: %s", agent, shown, log)
		}
		for _, want := range []string{"model call failed", "status 400", "bad_prompt", "vendor message of"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log of %s is %s, want %q in it", agent, log, want)
			}
		}
	}
	output, err := os.ReadFile(events)
	if err != nil || len(output) == 0 {
		t.Fatalf("events: %s, %v", output, err)
	}
	written["events"] = string(output)
	for where, text := range written {
		if strings.Contains(text, key) {
			t.Errorf("%s has the key: %s", where, text)
		}
	}
}
