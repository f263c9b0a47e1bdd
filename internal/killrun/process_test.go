package killrun_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/internal/fakemodel"
)

// server is one process.
type server struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   string        // File of what it prints.
	ready chan string   // Gets its URL; closed.
	ended chan struct{} // Closed once it was waited for.
	over  bool          // It was killed and looked at.
}

// startServer starts a process and returns at once.
func startServer(cfg serverConfig, log string) (*server, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	s := &server{cmd: exec.Command(os.Args[0]), log: log, ready: make(chan string, 1), ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), serverEnv+"="+string(text))
	s.cmd.Stderr = out
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err == nil {
			s.ready <- strings.TrimSpace(line)
		}
		close(s.ready)
		_ = s.cmd.Wait() // How it ended shows in its state.
	}()
	return s, nil
}

// kill ends the process as the end of its power would, and waits for it.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // It may have ended by itself, which flaws tells.
	<-s.ended
	s.stdin.Close()
}

// quit ends a process that hangs; it prints what its goroutines wait for.
func (s *server) quit() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.ended
}

// maxOutput bounds what a failed run shows of a server's output, in bytes.
const maxOutput = 64 << 10

// flaws says what the process did beside its work. It has ended.
func (s *server) flaws(mayExit bool) []string {
	var flaws []string
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed := ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	if !killed && !(mayExit && s.cmd.ProcessState.Success()) {
		flaws = append(flaws, fmt.Sprintf("the server ended by itself: %v", s.cmd.ProcessState))
	}
	out, err := os.ReadFile(s.log)
	if err != nil {
		return append(flaws, err.Error())
	}
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "cause=\"panic"} {
		if bytes.Contains(out, []byte(bad)) {
			flaws = append(flaws, "the server printed "+bad)
		}
	}
	if len(flaws) > 0 {
		flaws = append(flaws, string(out[max(0, len(out)-maxOutput):]))
	}
	return flaws
}

// counters count events and tell when one was counted often enough.
type counters struct {
	mu      sync.Mutex
	counts  map[moment]int
	waiters map[moment]map[int]chan struct{}
}

func newCounters() *counters {
	return &counters{counts: map[moment]int{}, waiters: map[moment]map[int]chan struct{}{}}
}

func (c *counters) add(m moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[m]++
	if w := c.waiters[m][c.counts[m]]; w != nil {
		close(w)
		delete(c.waiters[m], c.counts[m])
	}
}

// after returns what is closed at the n-th event from now on.
func (c *counters) after(m moment, n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiters[m] == nil {
		c.waiters[m] = map[int]chan struct{}{}
	}
	w := make(chan struct{})
	c.waiters[m][c.counts[m]+n] = w
	return w
}

// startVendor serves the model, and counts what it is asked and says.
func startVendor(t *testing.T, events *counters) string {
	model := fakemodel.New(nil)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		events.add(atCall)
		model.ServeHTTP(&countingWriter{w, events}, r)
	})
	mux.HandleFunc("POST /began", func(http.ResponseWriter, *http.Request) { events.add(atTool) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// countingWriter counts the events of a model's stream.
type countingWriter struct {
	http.ResponseWriter
	events *counters
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.events.add(atWord)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
