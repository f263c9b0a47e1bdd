package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
)

// The log of dev includes the error message of a vendor, and send prints it. The log of serve has the
// remedy instead, unless events of the agent include content. No key is printed.
func TestVendorMessages(t *testing.T) {
	const key, message = "key-of-the-vendor-1234", "unknown parameter: frobnicate"
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"`+message+`, sent with `+key+`"}}`)
	}))
	defer vendor.Close()
	const remedy = "events: {content: true}"
	for _, tt := range []struct {
		name, command string
		agent, top    string // more keys of the agent, and of the file
		log, send     string
		shown         bool
	}{
		{name: "dev", command: "dev", log: message, send: "vendor: " + message, shown: true},
		{name: "dev, events elsewhere", command: "dev", top: "events: {jsonl: {file: " + filepath.Join(t.TempDir(), "events.jsonl") + "}}", log: message, send: "the cause is in the server's log at submission=sub_", shown: true},
		{name: "serve", command: "serve", log: remedy, send: "the cause is in the server's log at submission=sub_"},
		{name: "serve, with content", command: "serve", agent: ", events: {content: true}", log: message, send: "the cause is in the server's log at submission=sub_", shown: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := clitest.Write(t, filepath.Join(dir, "parley.yaml"), fmt.Sprintf(`
listen: 127.0.0.1:0
bucket: {dir: %q}
providers:
  fake: {api: openai-completions, baseUrl: "%s/v1", apiKeyEnv: TEST_VENDOR_KEY, models: {m1: {contextWindow: 100000, maxTokens: 1000}}}
agents:
  desk: {mounts: [/agents/desk], model: fake/m1%s}
%s
`, filepath.Join(dir, "data"), vendor.URL, tt.agent, tt.top))
			n := program.With("TEST_VENDOR_KEY="+key).Start(t, tt.command, "--quiet", "--config", file)
			code, out, errOut := program.Output(t, "send", n.URL(t, "x").String(), "hello")
			if code != cli.ExitFailed || !strings.Contains(errOut, tt.send) {
				t.Errorf("send: exit %d, %q, %q; want exit %d and %q", code, out, errOut, cli.ExitFailed, tt.send)
			}
			_ = n.End(syscall.SIGTERM)
			if log := n.Logs.String(); !strings.Contains(log, tt.log) || strings.Contains(log, message) != tt.shown {
				t.Errorf("log has %q, want %q, words of vendor: %v", log, tt.log, tt.shown)
			}
			if all := out + errOut + n.Logs.String(); strings.Contains(all, key) {
				t.Errorf("the key is shown: %q", all)
			}
		})
	}
}
