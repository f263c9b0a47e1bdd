package admin_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/admin"
)

// profiled serves profiles with deadlines, and returns the accepted connections.
func profiled(t *testing.T) (*httptest.Server, taken) {
	t.Helper()
	s, err := admin.New(counted, &admin.Options{Profiles: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s)
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Hour, time.Hour
	l := taken{server.Listener, make(chan *timed, 20)}
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return server, l
}

// taken is a listener that reports its connections.
type taken struct {
	net.Listener
	conns chan *timed
}

// Accept implements net.Listener.
func (l taken) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	t := &timed{Conn: c}
	l.conns <- t
	return t, nil
}

// timed is a connection that records its deadlines.
type timed struct {
	net.Conn
	read, write atomic.Pointer[time.Time]
}

// SetReadDeadline implements net.Conn.
func (c *timed) SetReadDeadline(at time.Time) error {
	c.read.Store(&at)
	return c.Conn.SetReadDeadline(at)
}

// SetWriteDeadline implements net.Conn.
func (c *timed) SetWriteDeadline(at time.Time) error {
	c.write.Store(&at)
	return c.Conn.SetWriteDeadline(at)
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp.StatusCode, body
}

// isProfile reports whether b is gzip, the format of go tool pprof.
func isProfile(b []byte) bool { return bytes.HasPrefix(b, []byte{0x1f, 0x8b}) }

// TestProfileEndsWithTheHalfOfItsClient checks that a client ends its profile by closing its half,
// independent of the server's deadlines. A concurrent request for a profile fails.
func TestProfileEndsWithTheHalfOfItsClient(t *testing.T) {
	server, l := profiled(t)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /debug/pprof/profile?seconds=3600 HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("begin: %v, %v", resp, err)
	}
	if c := <-l.conns; !c.read.Load().IsZero() || !c.write.Load().IsZero() {
		t.Errorf("got read deadline %v, write deadline %v", c.read.Load(), c.write.Load())
	}
	if code, body := get(t, server.URL+"/debug/pprof/profile"); code != http.StatusConflict || !strings.Contains(string(body), "is running") {
		t.Errorf("second profile: got %d %s", code, body)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || !isProfile(body) {
		t.Errorf("end: %.20q, %v", body, err)
	}
}

func TestProfiles(t *testing.T) {
	server, _ := profiled(t)
	if code, body := get(t, server.URL+"/debug/pprof/allocs"); code != 200 || !isProfile(body) {
		t.Errorf("allocations: got %d %.20q", code, body)
	}
	begun := time.Now()
	if code, body := get(t, server.URL+"/debug/pprof/profile?seconds=1"); code != 200 || !isProfile(body) || time.Since(begun) < time.Second {
		t.Errorf("a second: %d %.20q after %v", code, body, time.Since(begun))
	}
	for path, want := range map[string]string{
		"/": "/debug/pprof/", "/debug/pprof/": "goroutine", "/debug/pprof/heap?gc=1&debug=1": "\n# HeapReleased = ",
	} {
		if code, body := get(t, server.URL+path); code != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%s: got %d without %q", path, code, want)
		}
	}
	for _, seconds := range []string{"0", "-1", "x", "3601", "1.5", "9999999999999999999"} {
		if code, body := get(t, server.URL+"/debug/pprof/profile?seconds="+seconds); code != 400 || !strings.Contains(string(body), "from 1 to 3600") {
			t.Errorf("seconds=%s: got %d %s", seconds, code, body)
		}
	}
}
