package http_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/conversation"
	parleyhttp "github.com/parleyrun/parley/http"
	"github.com/parleyrun/parley/memory"
)

// edge is a server without limits of its own, in virtual time. Its connections have no buffer: the
// server can write only while the client reads.
type edge struct {
	*harness
	l      *pipeListener
	closed chan time.Time // time when the server closed a connection
}

func newEdge(t *testing.T, change func(*parleyhttp.Options)) *edge {
	return serveEdge(t, newHarness(t, change))
}

func serveEdge(t *testing.T, h *harness) *edge {
	e := &edge{harness: h, l: newPipeListener(), closed: make(chan time.Time, 100)}
	srv := &http.Server{Handler: e.h, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			e.closed <- time.Now()
		}
	}}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(e.l) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return e
}

// send opens a connection and sends a request to a path below the first mount.
func (e *edge) send(method, path, rest string) net.Conn {
	conn := e.l.dial()
	go func() {
		_, _ = fmt.Fprintf(conn, "%s /agents/assistant%s HTTP/1.1\r\nHost: h\r\n%s", method, path, rest)
	}()
	return conn
}

// endless is a body without an end that stalls after a byte.
const endless = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"

// stalled is a short body of which nothing arrives.
const stalled = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"

// TestNeverRead checks on every route that a client that does not read loses its connection.
// covers: protocol/199
func TestNeverRead(t *testing.T) {
	message := func(body string) string {
		return fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for name, tt := range map[string]struct{ method, path, rest string }{
		"snapshot":    {"GET", "/c1", "\r\n"},
		"updates":     {"GET", "/c1?view=updates&offset=-1", "\r\n"},
		"long_poll":   {"GET", "/c1?view=updates&offset=-1&live=long-poll", "\r\n"},
		"sse":         {"GET", "/c1?view=updates&offset=-1&live=sse", "\r\n"},
		"attachment":  {"GET", "/c1/attachments/att_3", "\r\n"},
		"head":        {"HEAD", "/c1", "\r\n"},
		"abort":       {"POST", "/c1/abort", "\r\n"},
		"error":       {"GET", "/c1?view=nothing", "\r\n"},
		"no_route":    {"GET", "/c1/nothing", "\r\n"},
		"method":      {"DELETE", "/c1", "\r\n"},
		"receipt":     {"POST", "/c1", message(hello)},
		"refused":     {"POST", "/c1", message(hello[1:])},
		"wrong_media": {"POST", "/c1", "Content-Length: 1\r\n\r\nx"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEdge(t, nil)
				wantStatus(t, e.post("/c1", withAttachments("", pngJSON)), http.StatusAccepted)
				began := time.Now()
				defer e.send(tt.method, tt.path, tt.rest).Close()
				if took := (<-e.closed).Sub(began); took < 10*time.Second || took > 12*time.Second {
					t.Errorf("connection was open for %v", took)
				}
			})
		})
	}
}

// TestBodyThatStalls checks that a client that does not send its body gets a response and loses its
// connection. The response is immediate where the body is ignored.
// covers: protocol/199
func TestBodyThatStalls(t *testing.T) {
	const wait = 10 * time.Second
	for name, tt := range map[string]struct {
		method, path, rest string
		status             int
		answered           time.Duration // at the latest
	}{
		"message":         {"POST", "/c1", stalled, 400, wait},
		"endless_message": {"POST", "/c1", endless, 400, wait},
		"large_message":   {"POST", "/c1", "Content-Type: application/json\r\nContent-Length: 200000000\r\n\r\n{", 400, wait},
		"wrong_media":     {"POST", "/c1", "Content-Length: 100\r\n\r\n", 415, 0},
		"wrong_query":     {"POST", "/c1?wait=1", endless, 400, 0},
		"no_route":        {"POST", "/c1/nothing", endless, 404, 0},
		"method":          {"DELETE", "/c1", stalled, 405, 0},
		"too_long":        {"POST", "/c1", "Content-Type: application/json\r\nContent-Length: 300000000\r\n\r\n", 400, 0},
		"expects":         {"PUT", "/c1", "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n", 405, 0},
		"abort":           {"POST", "/c1/abort", endless, 200, 0},
		"snapshot":        {"GET", "/c1", stalled, 200, 0},
		"head":            {"HEAD", "/c1", endless, 200, 0},
		"sse":             {"GET", "/c1?view=updates&offset=-1&live=sse", endless, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEdge(t, nil)
				e.create()
				began := time.Now()
				conn := e.send(tt.method, tt.path, tt.rest)
				defer conn.Close()
				res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: tt.method})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); res.StatusCode != tt.status || took > tt.answered+time.Second {
					t.Errorf("got status %d after %v, want %d after at most %v", res.StatusCode, took, tt.status, tt.answered+time.Second)
				}
				if name == "sse" {
					e.h.Drain() // it continues while the client reads
				}
				answered := time.Now()
				_, _ = io.Copy(io.Discard, conn)
				if took := (<-e.closed).Sub(answered); took > 2*time.Second {
					t.Errorf("connection was open for %v after the response", took)
				}
			})
		})
	}
}

// TestBodyThatTrickles checks that progress counts: a slow steady client succeeds, and one that rarely
// sends a byte fails.
// covers: protocol/199
func TestBodyThatTrickles(t *testing.T) {
	const size = 200 << 10
	body := `{"kind":"user","body":"` + strings.Repeat("x", size-25) + `"}`
	for _, tt := range []struct {
		every  time.Duration
		piece  int
		status int
	}{{time.Second, 2 << 10, 202}, {9 * time.Second, 16 << 10, 202}, {11 * time.Second, 16 << 10, 400}, {time.Second, 1, 400}} {
		t.Run(fmt.Sprintf("%d_bytes_every_%v", tt.piece, tt.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEdge(t, nil)
				conn := e.send("POST", "/c1", fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)))
				defer conn.Close()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for rest := body; rest != ""; rest = rest[min(len(rest), tt.piece):] {
						time.Sleep(tt.every)
						if _, err := io.WriteString(conn, rest[:min(len(rest), tt.piece)]); err != nil {
							return
						}
					}
				}()
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				if res.StatusCode != tt.status {
					t.Errorf("got status %d, want %d", res.StatusCode, tt.status)
				}
				_ = conn.Close()
				<-sent
			})
		})
	}
}

// TestSlowDiskIsNotTheClient checks that the server's own processing time does not count.
func TestSlowDiskIsNotTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, func(o *parleyhttp.Options) {
			o.MemoryBytes = 1 << 10
			o.SpoolAllowed = func(int64) error { time.Sleep(20 * time.Second); return nil }
		})
		body := `{"kind":"user","body":"` + strings.Repeat("x", 20<<10) + `"}`
		conn := e.send("POST", "/c1", fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		defer conn.Close()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusAccepted {
			t.Errorf("got %v, %v", res, err)
		}
	})
}

// TestNoRoomForABody fills the budgets of bodies in memory and in files, and checks the error and the
// release.
func TestNoRoomForABody(t *testing.T) {
	full := errors.New("volume is nearly full")
	budget := memory.New(20 << 10)
	large := withAttachments("", fmt.Sprintf(`{"type":"image","mimeType":"image/png","data":"%s"}`, strings.Repeat("AAAA", 100<<10)))
	for name, tt := range map[string]struct {
		change  func(*parleyhttp.Options)
		body    string
		details string
	}{
		"memory": {func(o *parleyhttp.Options) { o.BodyBytes = 20 << 10 }, `{"kind":"user","body":"` + strings.Repeat("x", 100<<10) + `"}`, "of the 20480 bytes of bodies"},
		"text": {func(o *parleyhttp.Options) { o.MemoryBytes, o.BodyBytes = 1<<10, 20<<10 },
			`{"kind":"user","body":"` + strings.Repeat("x", 100<<10) + `"}`, "of the 20480 bytes of bodies"},
		"node":        {func(o *parleyhttp.Options) { o.Memory = budget }, `{"kind":"user","body":"` + strings.Repeat("x", 100<<10) + `"}`, "of the 20480 bytes of this node"},
		"disk":        {func(o *parleyhttp.Options) { o.MemoryBytes, o.SpoolBytes = 1<<10, 200<<10 }, large, "of the 204800 bytes of temporary files"},
		"attachments": {func(o *parleyhttp.Options) { o.MemoryBytes, o.SpoolBytes = 1<<10, 500<<10 }, large, "of the 512000 bytes of temporary files"},
		"volume": {func(o *parleyhttp.Options) {
			o.MemoryBytes = 1 << 10
			o.SpoolAllowed = func(int64) error { return full }
		}, large, ""},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/chunked_%t", name, chunked), func(t *testing.T) {
				h := newHarness(t, tt.change)
				r := newPost("/c1", strings.NewReader(tt.body))
				if chunked {
					r.ContentLength = -1
				}
				res := h.serve(r)
				if res.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				if e := wantError(t, res, 503, conversation.CodeUnavailable); !strings.Contains(e.Details, tt.details) {
					t.Errorf("got details %q, want %q in them", e.Details, tt.details)
				}
				if got := h.rt.wrote(); got != nil || h.leftovers() != nil {
					t.Errorf("got writes %v, leftovers %v", got, h.leftovers())
				}
				if got := h.h.Spooled(); got.Used != 0 || (got.Refused > 0) != strings.Contains(tt.details, "temporary files") {
					t.Errorf("got file usage %+v", got)
				}
				if used := budget.Usage(); len(used) > 0 && used[0].Used != 0 {
					t.Errorf("got memory usage %+v after the request", used)
				}
				wantStatus(t, h.post("/c1", hello), http.StatusAccepted) // other requests have room
			})
		}
	}
}
