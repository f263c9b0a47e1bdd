package http_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	parleyhttp "github.com/parleyrun/parley/http"

	"github.com/parleyrun/parley/internal/waiting"
)

// closeTimeout bounds open requests at shutdown.
const closeTimeout = 2 * time.Second

// pipes is a listener of in-process connections, which a synctest bubble can wait for.
type pipes chan net.Conn

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (p pipes) Close() error {
	defer func() { _ = recover() }() // closed already
	close(p)
	return nil
}

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects a client that is closed with the test.
func (p pipes) dial(t *testing.T) net.Conn {
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close() })
	p <- there
	return here
}

func logger(l *waiting.Log) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// steps records the order of events.
type steps struct {
	mu  sync.Mutex
	all []string
}

func (s *steps) note(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, event)
}

// stubRuntime is a runtime without requests.
type stubRuntime struct {
	steps
	ready    chan struct{}
	fails    chan error
	handOver func(context.Context) error
}

func newStubRuntime() *stubRuntime {
	return &stubRuntime{ready: make(chan struct{}), fails: make(chan error, 1), handOver: func(context.Context) error { return nil }}
}

// Run implements parleyhttp.Runtime.
func (l *stubRuntime) Run(ctx context.Context) error {
	defer l.note("the runtime ends")
	select {
	case <-ctx.Done():
		synctest.Wait() // Earlier ends have been recorded.
		return nil
	case err := <-l.fails:
		return err
	}
}

// Ready implements parleyhttp.Runtime.
func (l *stubRuntime) Ready() <-chan struct{} { return l.ready }

// HandOver implements parleyhttp.Runtime.
func (l *stubRuntime) HandOver(ctx context.Context) error {
	l.note("handing over")
	return l.handOver(ctx)
}

// get sends a request on its own connection and returns the response with an unread body.
func get(t *testing.T, c net.Conn, path string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// TestServeEndsInOrder checks the order of start and shutdown. Requests are accepted once the runtime
// is ready and during the handover. Then live responses end, behind any middleware, and the runtime
// last. Idle clients do not delay it.
func TestServeEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		rt, l, logs := newStubRuntime(), make(pipes, 20), &waiting.Log{}
		ctx, stop := context.WithCancel(t.Context())
		s := &parleyhttp.Server{Logger: logger(logs), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.h.ServeHTTP(w, r) // as middleware does
		})}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, l, rt, func() { rt.note("ready") }) }()
		synctest.Wait()
		if len(rt.all) != 0 {
			t.Errorf("got events %q before the runtime is ready", rt.all)
		}
		close(rt.ready)
		for range 10 {
			l.dial(t) // idle
		}
		const path = "/agents/assistant/c1"
		rest := get(t, l.dial(t), path) // keeps its connection
		_, _ = io.Copy(io.Discard, rest.Body)
		var live []*http.Response
		for range 3 {
			live = append(live, get(t, l.dial(t), path+"?view=updates&offset=-1&live=sse"))
		}
		synctest.Wait()
		if n := s.Connections(); n != 14 {
			t.Errorf("%d connections", n)
		}
		rt.handOver = func(context.Context) error {
			if resp := get(t, l.dial(t), path); resp.StatusCode != http.StatusOK {
				t.Errorf("got status %d during the handover", resp.StatusCode)
			}
			return errors.New("no other node")
		}
		var readers sync.WaitGroup
		for _, resp := range live {
			readers.Go(func() {
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Errorf("live response ended with %v", err)
				}
				rt.note("a live response ends")
			})
		}
		begun := time.Now()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("got error %v", err)
		}
		readers.Wait()
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("ended after %v", took)
		}
		want := []string{"ready", "handing over", "a live response ends", "a live response ends", "a live response ends", "the runtime ends"}
		if d := cmp.Diff(want, rt.all); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
		if !strings.Contains(logs.String(), "handover incomplete") || s.Connections() != 0 {
			t.Errorf("got %d connections, log %s", s.Connections(), logs)
		}
	})
}

// TestDrainDelay stops a server with a drain delay. It is unready at once, serves messages, reads and
// live reads for the whole delay, closes each connection after its response, and then ends.
func TestDrainDelay(t *testing.T) {
	const delay, path = 5 * time.Second, "/agents/assistant/c1"
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		h.create()
		rt, l := newStubRuntime(), make(pipes, 20)
		ctx, stop := context.WithCancel(t.Context())
		s := &parleyhttp.Server{Handler: h.h, DrainDelay: delay}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx, l, rt, nil) }()
		close(rt.ready)
		kept := l.dial(t)
		if resp := get(t, kept, path); resp.Close || s.Draining() {
			t.Errorf("before the end: Connection: close is %v, draining %v", resp.Close, s.Draining())
		} else {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		begun := time.Now()
		stop()
		synctest.Wait()
		if !s.Draining() {
			t.Error("server is not draining after its context ended")
		}
		time.Sleep(delay - time.Millisecond)
		for name, conn := range map[string]net.Conn{"kept": kept, "new": l.dial(t)} {
			resp := get(t, conn, path)
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || !resp.Close {
				t.Errorf("%s connection, at the end of the delay: status %d, Connection: close %v, %v; want 200 and true", name, resp.StatusCode, resp.Close, err)
			}
		}
		live := get(t, l.dial(t), path+"?view=updates&offset=-1&live=sse")
		if live.StatusCode != http.StatusOK {
			t.Errorf("a live read at the end of the delay: status %d, want 200", live.StatusCode)
		}
		go func() { _, _ = io.Copy(io.Discard, live.Body) }()
		if err := <-ended; err != nil || time.Since(begun) < delay || time.Since(begun) > delay+time.Second { // net/http polls
			t.Errorf("ended with %v after %v, want %v", err, time.Since(begun), delay)
		}
	})
}

// TestDrainDelayIsCut checks that a stopped start and a failed runtime skip the delay.
func TestDrainDelayIsCut(t *testing.T) {
	for name, ready := range map[string]bool{"not_ready": false, "fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, ended := newStubRuntime(), make(chan error, 1)
				ctx, stop := context.WithCancel(t.Context())
				s := &parleyhttp.Server{Handler: http.NotFoundHandler(), DrainDelay: time.Hour}
				if ready {
					close(rt.ready)
				}
				begun := time.Now()
				go func() { ended <- s.Run(ctx, make(pipes), rt, nil) }()
				synctest.Wait()
				stop()
				if ready {
					synctest.Wait()
					rt.fails <- errors.New("broken")
				}
				if err := <-ended; (err != nil) != ready || time.Since(begun) >= time.Second {
					t.Errorf("ended with %v after %v", err, time.Since(begun))
				}
			})
		})
	}
}

// TestServeEndsWithItsParts checks that a failure of either part ends the other, before and after
// readiness.
func TestServeEndsWithItsParts(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(*stubRuntime, pipes){
		"the runtime, at once": func(rt *stubRuntime, _ pipes) { rt.fails <- broken },
		"the runtime":          func(rt *stubRuntime, _ pipes) { close(rt.ready); synctest.Wait(); rt.fails <- broken },
		"the listener":         func(rt *stubRuntime, l pipes) { close(rt.ready); synctest.Wait(); _ = l.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt, l, ended := newStubRuntime(), make(pipes), make(chan error, 1)
				go func() { ended <- parleyhttp.Serve(t.Context(), l, http.NotFoundHandler(), rt) }()
				synctest.Wait()
				fail(rt, l)
				if err := <-ended; !errors.Is(err, broken) && !errors.Is(err, net.ErrClosed) {
					t.Errorf("got error %v", err)
				}
				if _, open := <-l; open || rt.all[len(rt.all)-1] != "the runtime ends" {
					t.Errorf("got listener open %v, events %q", open, rt.all)
				}
			})
		})
	}
}

// TestServeEndsBeforeItIsReady stops a start and checks that the listener is closed.
func TestServeEndsBeforeItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		rt, l, ended := newStubRuntime(), make(pipes), make(chan error, 1)
		go func() { ended <- parleyhttp.Serve(ctx, l, http.NotFoundHandler(), rt) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("got error %v", err)
		}
		if _, open := <-l; open {
			t.Error("listener is still open")
		}
	})
}

// TestOpenRequestDoesNotFailTheEnd stops a server while a client is still sending.
func TestOpenRequestDoesNotFailTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		l, logs, ended := make(pipes), &waiting.Log{}, make(chan error, 1)
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		s := &parleyhttp.Server{Handler: handler, Logger: logger(logs)}
		go func() { ended <- s.Serve(ctx, l) }()
		if _, err := io.WriteString(l.dial(t), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		begun := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("got error %v", err)
		}
		if took := time.Since(begun); took != closeTimeout || !strings.Contains(logs.String(), "requests still open") {
			t.Errorf("ended after %v, log %s", took, logs)
		}
	})
}

// TestConnectionsHaveABound allows two connections. A third client waits while both are busy, and
// replaces one that becomes idle.
func TestConnectionsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		logs, ended := &waiting.Log{}, make(chan error, 1)
		release := map[string]chan struct{}{"/first": make(chan struct{}), "/second": make(chan struct{}), "/third": make(chan struct{})}
		raw := make(pipes, 10)
		s := &parleyhttp.Server{MaxConnections: 2, Logger: logger(logs), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-release[r.URL.Path]
		})}
		go func() { ended <- s.Serve(ctx, raw) }()
		var answers [3]atomic.Int64
		conns := [3]net.Conn{}
		for i, path := range []string{"/first", "/second", "/third"} {
			conns[i] = raw.dial(t)
			go func() {
				if _, err := io.WriteString(conns[i], "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					return
				}
				if resp, err := http.ReadResponse(bufio.NewReader(conns[i]), nil); err == nil {
					answers[i].Store(int64(resp.StatusCode))
				}
			}()
			synctest.Wait()
		}
		if n := s.Connections(); n != 2 || answers[2].Load() != 0 {
			t.Errorf("got %d connections, third client got %d", n, answers[2].Load())
		}
		if !strings.Contains(logs.String(), "connection limit reached") {
			t.Errorf("got log %s", logs)
		}
		close(release["/third"])
		close(release["/first"])
		synctest.Wait()
		if n := s.Connections(); n > 2 || answers[0].Load() != 200 || answers[1].Load() != 0 || answers[2].Load() != 200 {
			t.Errorf("%d, answers %d %d %d", n, answers[0].Load(), answers[1].Load(), answers[2].Load())
		}
		close(release["/second"])
		// The idle connection was closed.
		if _, err := conns[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read of the first one: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("got error %v", err)
		}
		synctest.Wait()
		if n := s.Connections(); n != 0 {
			t.Errorf("got %d connections at the end", n)
		}
	})
}

// TestFullServerEnds stops a server while a client waits for a connection slot.
func TestFullServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended, raw := make(chan error, 1), make(pipes, 10)
		s := &parleyhttp.Server{MaxConnections: 1, Handler: http.NotFoundHandler()}
		go func() { ended <- s.Serve(ctx, raw) }()
		raw.dial(t)
		synctest.Wait()
		stop()
		begun := time.Now()
		if err := <-ended; err != nil || time.Since(begun) >= closeTimeout {
			t.Errorf("ended with %v after %v", err, time.Since(begun))
		}
	})
}
