package killrun_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/parleyrun/parley/internal/fakemodel"
	"github.com/parleyrun/parley/internal/proc"
)

type server struct {
	*proc.Process
	over    bool // killed, and its output checked
	excused bool // starts over a faulty store, so its start may fail
}

// gaveUp reports whether an excused server has failed to start with an error.
func (s *server) gaveUp() bool { return s.excused && s.HasEnded() && !s.Served() && s.ExitCode() == 1 }

func startServer(reaper *proc.Reaper, cfg serverConfig, log string) (*server, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	p, err := reaper.Start(proc.Command{Args: os.Args[:1], Env: []string{serverEnv + "=" + string(text)}, Log: log})
	return &server{Process: p}, err
}

// maxOutput limits the part of a server's output in a failure, in bytes.
const maxOutput = 64 << 10

// flaws returns the flaws in the output of a process that has ended.
func (s *server) flaws() []string {
	flaws := s.Flaws()
	if f := s.Flaw(); f != "" && !s.gaveUp() {
		flaws = append(flaws, f)
	}
	if len(flaws) > 0 {
		flaws = append(flaws, proc.Tail(s.Log, maxOutput))
	}
	return flaws
}

// counters counts events and signals when a count is reached.
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

// after returns a channel that is closed at the n-th event from now on.
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

// startVendor serves the model, and counts its calls and events.
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

type countingWriter struct {
	http.ResponseWriter
	events *counters
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.events.add(atWord)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
