package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
)

// TestFewDescriptors gives a server 100 files, and opens more connections than that, some
// of them for good. It goes on to take requests, and has files left to do what they ask.
func TestFewDescriptors(t *testing.T) {
	dir, at := t.TempDir(), noderun.Refusing(t)
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir), fmt.Sprintf("admin: {listen: %q}", at))
	all := program.File
	program.File = clitest.Write(t, filepath.Join(dir, "parley"), "#!/bin/sh\nulimit -n 100\nexec "+all+` "$@"`+"\n")
	if err := os.Chmod(program.File, 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() { program.File = all }()
	n := program.Start(t, "serve", "--quiet", "--config", file)
	u := n.URL(t, "x")
	clitest.Admitted(t, u, "k0", "hello")
	// Clients that keep a connection after a request.
	for i := range 150 {
		c, err := net.DialTimeout("tcp", u.Host, clitest.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(clitest.Timeout)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s?view=updates&offset=-1 HTTP/1.1\r\nHost: x\r\n\r\n", u.Path)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("connection %d: %d, %v", i, resp.StatusCode, err)
		}
	}
	if code, out, errOut := program.Output(t, "send", u.String(), "hello again"); code != 0 || !strings.HasSuffix(out, "[completed]\n") {
		t.Errorf("send: exit %d, %q, %q", code, out, errOut)
	}
	_, text := fetch(t, "http://"+at+"/metrics")
	if !strings.Contains(text, "\nparley_connections_limit 22\n") || !strings.Contains(text, "\nparley_connections 2") {
		t.Error("metrics have no connections, or another limit")
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
	if logs := n.Logs.String(); strings.Contains(logs, "too many open files") || !strings.Contains(logs, "open files are limited") {
		t.Error(logs)
	}
}

// TestConnectionsHaveABound takes two connections in a bubble, with room for no more. A
// third client waits while both are busy, and takes the place of one that gets idle.
func TestConnectionsHaveABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		logs, ended := &clitest.Lines{}, make(chan error, 1)
		release := map[string]chan struct{}{"/first": make(chan struct{}), "/second": make(chan struct{}), "/third": make(chan struct{})}
		raw := make(pipes, 10)
		bound := newConnections(raw, 2, slog.New(slog.NewTextHandler(logs, nil)))
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-release[r.URL.Path]
		})
		go func() { ended <- serveHTTP(ctx, bound, handler, func() {}, slog.New(slog.DiscardHandler)) }()
		var answers [3]atomic.Int64
		conns := [3]net.Conn{}
		for i, path := range []string{"/first", "/second", "/third"} {
			here, there := net.Pipe()
			conns[i] = here
			raw <- there
			go func() {
				if _, err := io.WriteString(here, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					return
				}
				if resp, err := http.ReadResponse(bufio.NewReader(here), nil); err == nil {
					answers[i].Store(int64(resp.StatusCode))
				}
			}()
			synctest.Wait()
		}
		if n := bound.count(); n != 2 || answers[2].Load() != 0 {
			t.Errorf("%d, and a third was answered %d", n, answers[2].Load())
		}
		if logs.With("level=WARN", "all connections are in use") == "" {
			t.Errorf("logged %s", logs.Buf.String())
		}
		close(release["/third"])
		close(release["/first"])
		synctest.Wait()
		if n := bound.count(); n > 2 || answers[0].Load() != 200 || answers[1].Load() != 0 || answers[2].Load() != 200 {
			t.Errorf("%d, answers %d %d %d", n, answers[0].Load(), answers[1].Load(), answers[2].Load())
		}
		close(release["/second"])
		// The one that was idle has lost its place.
		if _, err := conns[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read of the first one: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ends with %v", err)
		}
		for _, c := range conns {
			c.Close()
		}
		synctest.Wait()
		if n := bound.count(); n != 0 {
			t.Errorf("%d at the end", n)
		}
	})
}

// TestFullServerEnds ends a server while a client waits for a place.
func TestFullServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended, raw := make(chan error, 1), make(pipes, 10)
		go func() {
			log := slog.New(slog.DiscardHandler)
			ended <- serveHTTP(ctx, newConnections(raw, 1, log), http.NotFoundHandler(), func() {}, log)
		}()
		here, there := net.Pipe()
		defer here.Close()
		raw <- there
		synctest.Wait()
		stop()
		begun := time.Now()
		if err := <-ended; err != nil || time.Since(begun) >= closeTimeout {
			t.Errorf("ends with %v after %v", err, time.Since(begun))
		}
	})
}

func TestDivideDescriptors(t *testing.T) {
	for limit, want := range map[int]descriptors{
		0: {}, 64: {limit: 64, tables: 8, connections: 8}, 100: {limit: 100, tables: 15, connections: 22},
		1024: {limit: 1024, tables: 246, connections: 369}, 1 << 20: {limit: 1 << 20, tables: 246, connections: 524145},
	} {
		if got, err := divide(limit); err != nil || got != want {
			t.Errorf("%d: %+v, %v; want %+v", limit, got, err, want)
		}
	}
	if _, err := divide(63); err == nil || !strings.Contains(err.Error(), "ulimit -n 1024") {
		t.Errorf("63: %v", err)
	}
}
