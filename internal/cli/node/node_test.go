package node

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
)

// pipes is a listener of connections within the process: those a bubble can wait for.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestOpenRequestDoesNotFailTheEnd ends a server while a client is still sending.
func TestOpenRequestDoesNotFailTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener, logs, drained, ended := make(pipes), &clitest.Lines{}, false, make(chan error, 1)
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
		go func() {
			ended <- serveHTTP(ctx, newConnections(listener, 0, slog.New(slog.DiscardHandler)), handler, func() { drained = true }, slog.New(slog.NewTextHandler(logs, nil)))
		}()
		here, there := net.Pipe()
		defer here.Close()
		listener <- there
		if _, err := io.WriteString(here, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		begun := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("ends with %v", err)
		}
		if took := time.Since(begun); took != closeTimeout || !drained {
			t.Errorf("ends after %v, drained: %v", took, drained)
		}
		if logs.With("level=WARN", "requests are still open") == "" {
			t.Errorf("logged %s", logs.Buf.String())
		}
	})
}

// TestSpareConnectionDoesNotDelayTheEnd ends a server while a client has a connection
// open on which it has sent nothing.
func TestSpareConnectionDoesNotDelayTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener, logs, ended := make(pipes), &clitest.Lines{}, make(chan error, 1)
		go func() {
			ended <- serveHTTP(ctx, newConnections(listener, 0, slog.New(slog.DiscardHandler)), http.NotFoundHandler(), func() {}, slog.New(slog.NewTextHandler(logs, nil)))
		}()
		here, there := net.Pipe()
		defer here.Close()
		listener <- there
		synctest.Wait()
		stop()
		begun := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("ends with %v", err)
		}
		if took := time.Since(begun); took >= closeTimeout || logs.Buf.Len() > 0 {
			t.Errorf("ends after %v and logs %s", took, logs.Buf.String())
		}
	})
}

func TestServeWithoutMounts(t *testing.T) {
	for _, mounts := range [][]string{nil, {"/echo"}} {
		conf, logs := named("echo"), &clitest.Lines{}
		conf.Bucket.Dir, conf.Agents[0].Mounts = t.TempDir(), mounts
		b, err := newConfigured(conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: &cli.Program{}}, slog.New(slog.NewTextHandler(logs, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.close(); err != nil {
			t.Error(err)
		}
		if warned := logs.With("level=WARN", "no agent has a mount") != ""; warned != (mounts == nil) {
			t.Errorf("mounts %v: logged %s", mounts, logs.Buf.String())
		}
	}
}
