package clients_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/waiting"
)

const stopTimeout = time.Minute

// configuration is parley.yaml. The verbs are the address, the bucket, and the model's URL twice.
const configuration = `
listen: %s
bucket: %s
auth: {bearerEnv: SERVE_TOKEN}
beta: {path: /beta}
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

// server is a "parley serve" that can be restarted over the same bucket, and at the same address if
// one is set. It is safe for concurrent use.
type server struct {
	program, config string
	env             []string
	log             waiting.Log

	mu   sync.Mutex
	cmd  *exec.Cmd  // nil if no process runs
	done chan error // result of its Wait
}

func newServer(t *testing.T, program, address, bucket string, env []string, model string) *server {
	t.Helper()
	config := filepath.Join(t.TempDir(), "parley.yaml")
	content := fmt.Sprintf(configuration, address, bucket, model+"/v1", model)
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	env = append(environment(), env...)
	return &server{program: program, config: config, env: append(env, "SERVE_TOKEN="+bearerToken, "SERVE_MODEL_KEY="+modelKey)}
}

// startServe runs the server until the test ends, and returns the URLs of its two agents. The shutdown
// must succeed.
func startServe(t *testing.T, s *server) (completions, messages string) {
	t.Helper()
	urls, err := s.start()
	t.Cleanup(func() {
		err := s.end(syscall.SIGTERM)
		if err != nil || t.Failed() {
			t.Errorf("parley serve: %v\n%s", err, tail(s.log.String()))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return urls[0], urls[1]
}

// start starts a process and returns, once it serves, the URLs of its agents.
func (s *server) start() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		return nil, errors.New("start parley serve: already running")
	}
	cmd := exec.Command(s.program, "serve", "--quiet", "--config", s.config)
	cmd.Env, cmd.Stderr = s.env, &s.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	late := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(stdout)
	var urls []string
	for len(urls) < 2 && lines.Scan() {
		urls = append(urls, strings.TrimSpace(lines.Text()))
	}
	// The process prints nothing more, so the pipe needs no reader.
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	s.cmd, s.done = cmd, done
	if len(urls) < 2 {
		return nil, fmt.Errorf("parley serve: got URLs %q, want two", urls)
	}
	return urls, nil
}

// end sends a signal to the process, if there is one, and waits for its end. After stopTimeout it
// kills the process.
func (s *server) end(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	cmd, done := s.cmd, s.done
	s.cmd, s.done = nil, nil
	_ = cmd.Process.Signal(sig) // If there is no process, Wait returns the reason.
	select {
	case err := <-done:
		var exit *exec.ExitError
		if sig == syscall.SIGKILL && errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == sig {
			return nil
		}
		return err
	case <-time.After(stopTimeout):
		_ = cmd.Process.Kill()
		return fmt.Errorf("timeout of %v after %v: %w", stopTimeout, sig, <-done)
	}
}

func tail(log string) string {
	const shown = 8 << 10
	return log[max(len(log)-shown, 0):]
}
