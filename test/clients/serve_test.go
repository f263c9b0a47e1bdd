package clients_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stopTimeout bounds an orderly end; it only matters when there is none.
const stopTimeout = time.Minute

// configuration is parley.yaml; the verbs are the bucket, and the model's URL twice.
const configuration = `
listen: 127.0.0.1:0
bucket: %s
auth: {bearerEnv: SERVE_TOKEN}
providers:
  first:
    api: openai-completions
    baseUrl: %q
    apiKeyEnv: SERVE_MODEL_KEY
    models: {m1: {contextWindow: 1000000, maxTokens: 100000, reasoning: true, input: [text, image]}}
  second:
    api: anthropic-messages
    baseUrl: %q
    apiKeyEnv: SERVE_MODEL_KEY
    models: {m2: {contextWindow: 1000000, maxTokens: 100000, reasoning: true, input: [text, image]}}
agents:
  completions: {mounts: [/agents/completions], model: first/m1, instructions: "You are terse.", thinkingLevel: low}
  messages: {mounts: [/agents/messages], model: second/m2, instructions: "You are terse.", thinkingLevel: low}
`

// startServe runs "parley serve" until the test ends, and returns the URLs of its
// two agents. The end is an orderly one, which must succeed.
func startServe(t *testing.T, program string, at place, model string) (completions, messages string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	content := fmt.Sprintf(configuration, at.yaml, model+"/v1", model)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(program, "serve", "--quiet", "--config", file)
	cmd.Env = append(environment(), at.env...)
	cmd.Env = append(cmd.Env, "SERVE_TOKEN="+bearerToken, "SERVE_MODEL_KEY="+modelKey)
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var urls []string
	for len(urls) < 2 && lines.Scan() {
		urls = append(urls, strings.TrimSpace(lines.Text()))
	}
	// Nothing more is printed, so the pipe may be left alone from here on.
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		err := stop(cmd, done)
		if err != nil || t.Failed() {
			t.Errorf("parley serve ended: %v\n%s", err, tail(log.String()))
		}
	})
	if len(urls) < 2 {
		t.Fatalf("parley serve printed the URLs %q, want two", urls)
	}
	return urls[0], urls[1]
}

// stop asks the process to end, and ends it if it does not.
func stop(cmd *exec.Cmd, done <-chan error) error {
	_ = cmd.Process.Signal(syscall.SIGTERM) // Without a process, Wait has the reason.
	select {
	case err := <-done:
		return err
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		return fmt.Errorf("no end within %v of SIGTERM: %w", stopTimeout, <-done)
	}
}

// tail is the end of a log.
func tail(log string) string {
	const shown = 8 << 10
	return log[max(len(log)-shown, 0):]
}
