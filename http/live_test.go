package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/internal/waiting"
)

// pipeListener provides connections in memory, so that a real server runs in virtual time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// wire is a client that records every byte it receives and its time.
type wire struct {
	conn    net.Conn
	start   time.Time
	stalled chan struct{} // closed: the current read is the last
	notes   waiting.Log
}

func dialWire(l *pipeListener) *wire {
	w := &wire{conn: l.dial(), start: time.Now(), stalled: make(chan struct{})}
	go w.read()
	return w
}

func (w *wire) read() {
	buf := make([]byte, 1<<20)
	for {
		n, err := w.conn.Read(buf)
		w.note(string(buf[:n]), err)
		select {
		case <-w.stalled:
			return
		default:
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) note(text string, err error) {
	if text != "" {
		fmt.Fprintf(&w.notes, "+%v\n%s", time.Since(w.start), visible(text))
	}
	if err != nil {
		end := err.Error()
		if errors.Is(err, io.EOF) {
			end = "closed"
		}
		fmt.Fprintf(&w.notes, "+%v\n<%s>\n", time.Since(w.start), end)
	}
}

// visible drops carriage returns and the date, and marks empty lines.
func visible(text string) string {
	var out strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "Date: "):
			continue
		case line == "":
			line = "~"
		}
		out.WriteString("  " + line + "\n")
	}
	return out.String()
}

// script runs one transcript of live reads.
type script struct {
	*harness
	l    *pipeListener
	wire *wire
	log  waiting.Log
}

// run executes a command and returns the output that the client received until everything is idle.
func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "create":
		s.create()
	case "connect":
		s.wire = dialWire(s.l)
		if _, err := fmt.Fprintf(s.wire.conn, "GET /agents/assistant/c1?view=updates&%s HTTP/1.1\r\nHost: h\r\n\r\n", strings.TrimSpace(d.Input)); err != nil {
			t.Fatal(err)
		}
	case "claims":
		n, err := strconv.Atoi(strings.TrimSpace(d.Input))
		if err != nil {
			t.Fatal(err)
		}
		s.claims(c1, n)
	case "turn":
		s.turn(c1)
	case "sleep":
		pause, err := time.ParseDuration(strings.TrimSpace(d.Input))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(pause)
	case "fail":
		s.failAt(strings.TrimSpace(d.Input))
	case "stall":
		close(s.wire.stalled)
	case "drain":
		s.h.Drain()
	case "hangup":
		if err := s.wire.conn.Close(); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("unknown command %s", d.Cmd)
	}
	synctest.Wait()
	out := ""
	if s.wire != nil {
		out = s.wire.notes.Take()
	}
	return out + s.log.Take()
}

func (s *script) failAt(failing string) {
	s.rt.mu.Lock()
	defer s.rt.mu.Unlock()
	s.rt.fail = func(method string) error {
		if method == failing {
			return conversation.Unavailable(time.Second, errors.New("no owner"))
		}
		return nil
	}
}

// newLog writes log lines without times, for transcripts.
func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// TestLive replays testdata/live in virtual time, over a server whose own limits are shorter than any
// live response.
// covers: protocol/5, protocol/116 long_poll, protocol/118 long_poll, protocol/119 long_poll_disconnect
// covers: protocol/120 sse, protocol/121 sse, protocol/122 sse, protocol/123 sse, protocol/124 sse_paging
// covers: protocol/197 long_poll_drain, protocol/197 sse_drain
func TestLive(t *testing.T) {
	datadriven.Walk(t, "testdata/live", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{l: newPipeListener()}
			// The default heartbeat would coincide with a control frame.
			s.harness = newHarness(t, func(o *parleyhttp.Options) { o.Logger, o.Heartbeat = newLog(&s.log), 16*time.Second })
			srv := &http.Server{Handler: s.h, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
			served := make(chan error, 1)
			go func() { served <- srv.Serve(s.l) }()
			datadriven.RunTest(t, path, s.run)
			if s.wire != nil {
				_ = s.wire.conn.Close() // it may be closed already
			}
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
			<-served
			synctest.Wait()
		})
	})
}

// TestLongPollLeavesTheConnectionUsable polls twice over one connection, with a pause longer than any
// limit of the first.
func TestLongPollLeavesTheConnectionUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := newHarness(t, nil), newPipeListener()
		h.create()
		srv := &http.Server{Handler: h.h}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		dials := 0
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials++
			return l.dial(), nil
		}}
		for range 2 {
			res, err := (&http.Client{Transport: transport}).Get(
				"http://h/agents/assistant/c1?view=updates&live=long-poll&offset=" + offset(0))
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, res); got != "[]" {
				t.Error(got)
			}
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		}
		if dials != 1 {
			t.Errorf("%d connections", dials)
		}
		transport.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

// writes counts the writes and flushes of a response.
type writes struct {
	header  http.Header
	written []int
	flushed int
	cancel  context.CancelFunc
}

func (w *writes) Header() http.Header { return w.header }
func (w *writes) WriteHeader(int)     {}
func (w *writes) Write(b []byte) (int, error) {
	w.written = append(w.written, len(b))
	return len(b), nil
}
func (w *writes) Flush() { w.flushed++; w.cancel() }

// TestCycleIsOneFlush covers a small cycle, which is one write, and one whose page is written in
// pieces.
// covers: protocol/122
func TestCycleIsOneFlush(t *testing.T) {
	for _, tt := range []struct{ text, writes int }{{10, 1}, {600 << 10, 12}} {
		h := newHarness(t, nil)
		wantStatus(t, h.post("/c1", `{"kind":"user","body":"`+strings.Repeat("x", tt.text)+`"}`), http.StatusAccepted)
		r, cancel := withCancel(httptest.NewRequest("GET", "/agents/assistant/c1?view=updates&live=sse&offset=-1", nil))
		w := &writes{header: http.Header{}, cancel: cancel}
		h.h.ServeHTTP(w, r)
		if len(w.written) != tt.writes || w.flushed != 1 {
			t.Errorf("%d bytes of text left in writes of %v and %d flushes", tt.text, w.written, w.flushed)
		}
	}
}
