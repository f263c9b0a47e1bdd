package bench

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// poolOf returns a pool and a server that counts its connections.
func poolOf(t *testing.T, h http.HandlerFunc) (*pool, *atomic.Int64) {
	t.Helper()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{at: at, headers: "A: b\r\n"}
	t.Cleanup(p.close)
	return p, &opened
}

// rest resets the idle time of the connections, because the machine may be busy.
func rest(p *pool) {
	for _, c := range p.idle {
		c.used = time.Now().Add(time.Hour)
	}
}

// Every kind of request and of body, over as few connections as possible.
func TestPoolReadsAnswers(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	p, opened := poolOf(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Saw", strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("A"), r.Header.Get("Content-Type"), string(b)}, " "))
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/known":
			w.Header().Set("Content-Length", strconv.Itoa(len(long)))
			_, _ = w.Write([]byte(long))
		case "/chunked":
			_, _ = w.Write([]byte("a"))
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write([]byte("b"))
		case "/last":
			w.Header().Set("Connection", "close")
		}
	})
	for _, tt := range []struct {
		method, path, body, saw, want string
		status                        int
	}{
		{"GET", "/none", "", "GET /none  b  ", "", http.StatusNoContent},
		{"GET", "/known?q=%2F&x", "", "GET /known q=%2F&x b  ", long, http.StatusOK},
		{"HEAD", "/known", "", "HEAD /known  b  ", "", http.StatusOK},
		{"POST", "/chunked", "{}\r\n\r\n", "POST /chunked  b application/json {}", "ab", http.StatusOK},
		{"GET", "/last", "", "GET /last  b  ", "", http.StatusOK},
		{"GET", "/a%2Fb", "", "GET /a%2Fb  b  ", "", http.StatusOK},
	} {
		rest(p)
		a, b, err := p.ask(t.Context(), tt.method, tt.path, tt.body)
		if err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		if got := a.Header.Get("Saw"); a.StatusCode != tt.status || string(b) != tt.want || strings.TrimRight(got, "\r\n ") != strings.TrimRight(tt.saw, " ") {
			t.Errorf("%s: %d, %d bytes, the server saw %q", tt.path, a.StatusCode, len(b), got)
		}
	}
	if got := opened.Load(); got != 2 {
		t.Errorf("%d connections, want one more after the answer that asked for it", got)
	}
}

// A connection is not reused after a long idle time, nor after a cancelled answer.
func TestPoolDropsConnections(t *testing.T) {
	asked := make(chan struct{}, 1)
	p, opened := poolOf(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			asked <- struct{}{}
			<-r.Context().Done()
		}
	})
	want := func(n int64) {
		t.Helper()
		if _, _, err := p.ask(t.Context(), "GET", "/", ""); err != nil || opened.Load() != n {
			t.Errorf("%v, %d connections, want %d", err, opened.Load(), n)
		}
	}
	want(1)
	rest(p)
	want(1)
	p.idle[0].used = time.Now().Add(-maxIdle)
	want(2)
	rest(p)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, _, err := p.ask(ctx, "GET", "/hang", ""); err == nil || len(p.idle) != 0 {
		t.Errorf("cancelled: %v, %d connections kept", err, len(p.idle))
	}
	want(3)
	p.close()
	want(4)
}

func TestPoolRejectsIncompleteAnswers(t *testing.T) {
	p, _ := poolOf(t, func(w http.ResponseWriter, r *http.Request) {
		size := 10
		if r.URL.Path == "/huge" {
			size = maxAnswer + 1
		}
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write([]byte("short"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if _, _, err := p.ask(t.Context(), "GET", "/cut", ""); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
	if _, _, err := p.ask(t.Context(), "GET", "/huge", ""); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("too large: %v", err)
	}
	if len(p.idle) != 0 {
		t.Errorf("%d broken connections are kept", len(p.idle))
	}
}

func TestPoolVerifiesTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // The server logs the failed handshake.
	server.StartTLS()
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&pool{at: at}).ask(t.Context(), "GET", "/", ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
}
