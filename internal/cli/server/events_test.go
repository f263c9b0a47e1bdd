package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/clickhousetest"
	"github.com/parleyrun/parley/internal/waiting"
	"github.com/parleyrun/parley/observability"
	"github.com/parleyrun/parley/observability/clickhouse"
	"github.com/parleyrun/parley/observability/jsonl"
	"github.com/parleyrun/parley/observability/stats"
)

// gate is a proxy that refuses connections until it is opened.
type gate struct {
	listener net.Listener
	behind   string
	open     atomic.Bool
}

func newGate(t *testing.T, behind string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: l, behind: behind}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if !g.open.Load() {
				_ = c.Close()
				continue
			}
			wg.Go(func() { g.forward(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return g
}

// forward copies in both directions until one of them ends.
func (g *gate) forward(c net.Conn) {
	s, err := net.Dial("tcp", g.behind)
	if err != nil {
		_ = c.Close()
		return
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = c.Close(), s.Close()
		})
	}
	wg.Wait()
}

// settledIn checks that a database has one completed submission.
func settledIn(ctx context.Context, dsn string) error {
	opts, err := cli.ParseDSN(dsn)
	if err != nil {
		return err
	}
	opts.Existing = true
	db, err := clickhouse.Open(ctx, opts)
	if err != nil {
		return err
	}
	defer db.Close()
	sum, err := db.Summary(ctx, stats.Filter{})
	if err == nil && sum.Submissions.Completed != 1 {
		err = fmt.Errorf("%d submissions are completed", sum.Submissions.Completed)
	}
	return err
}

func TestServeBeforeItsDatabase(t *testing.T) {
	server := clickhousetest.Start(t)
	g := newGate(t, server.Addr())
	database := server.Database(t)
	dir := t.TempDir()
	file := clitest.EchoConfig(t, dir, clitest.DirBucket(dir), fmt.Sprintf("events: {clickhouse: {addresses: [%q], database: %s}}", g.listener.Addr(), database))
	n := program.Start(t, "serve", "--quiet", "--config", file)
	at := n.URL(t, "a")
	r := clitest.Admitted(t, at, "k", "hello")
	clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
	waiting.Until(t, "the warning in the log", func() bool { return n.Logs.With("clickhouse unavailable") != "" })
	g.open.Store(true)
	wait := time.NewTicker(50 * time.Millisecond)
	defer wait.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
	defer cancel()
	for {
		err := settledIn(ctx, server.DSN(database))
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		<-wait.C
	}
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v\n%s", err, n.Logs)
	}
}

// spoken sends each written line to a channel.
type spoken struct {
	all chan string
	*io.PipeWriter
}

func newSpoken(t *testing.T) *spoken {
	r, w := io.Pipe()
	l := &spoken{make(chan string, 1000), w}
	var wg sync.WaitGroup
	wg.Go(func() {
		s := bufio.NewScanner(r)
		for s.Scan() {
			l.all <- s.Text()
		}
	})
	t.Cleanup(func() { _ = w.Close(); wg.Wait() })
	return l
}

// Standard output holds nothing but events.
func TestEventsOnStandardOutput(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"dev":             {"dev", "--events", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "dev")},
		"dev with a file": {"dev", "--events", "--config", clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {dir: %q}", filepath.Join(dir, "file")))},
		"serve":           {"serve", "--config", clitest.EchoConfig(t, t.TempDir(), fmt.Sprintf("bucket: {dir: %q}\nevents: {stdout: true, live: false}", filepath.Join(dir, "serve")))},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), clitest.Timeout)
		errOut := newSpoken(t)
		var out bytes.Buffer
		done := make(chan int)
		go func() { done <- program.Run(ctx, append(args, "--quiet"), &out, errOut) }()
		var url string
		for !strings.HasPrefix(url, "http://") {
			select {
			case url = <-errOut.all:
			case <-ctx.Done():
				t.Fatalf("%s: no URL", name)
			}
		}
		if code, _, output := program.Output(t, "send", url+"/a", "hello"); code != 0 {
			t.Errorf("%s: send: exit %d, %s", name, code, output)
		}
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("%s: exit %d", name, code)
		}
		types := map[observability.Type]int{}
		for e, err := range jsonl.Read(&out) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			types[e.Type]++
		}
		if types[observability.TypeSubmissionSettled] != 1 || (types[observability.TypeTextDelta] > 0) != (name != "serve") {
			t.Errorf("%s: events %v", name, types)
		}
	}
	// dev also keeps them in the data folder; serve writes only to the configured destination.
	for folder, want := range map[string]bool{"dev": true, "file": true, "serve": false} {
		_, err := os.Stat(filepath.Join(dir, folder, cli.DevEvents))
		if (err == nil) != want {
			t.Errorf("%s in %s: %v", cli.DevEvents, folder, err)
		}
	}
}

// A write by a read-only user fails. Writes recover after the tables, and the database, were dropped.
func TestLateDatabase(t *testing.T) {
	server := clickhousetest.Start(t)
	opts, err := cli.ParseDSN(server.DSN(server.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	reader := opts
	reader.Username = "readonly"
	late := newLateDatabase(reader, nil, slog.New(slog.DiscardHandler))
	var denied *clickhouse.DeniedError
	if err := late.Write(t.Context(), clitest.Events(t)); !errors.As(err, &denied) {
		t.Errorf("read-only user: %v", err)
	}
	if err := late.close(); err != nil {
		t.Error(err)
	}
	late = newLateDatabase(opts, nil, slog.New(slog.DiscardHandler))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := late.Write(t.Context(), clitest.Events(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := 0
	for _, err := range late.database.Events(t.Context(), clickhouse.Filter{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != len(clitest.Events(t)) {
		t.Errorf("%d events, want %d", n, len(clitest.Events(t)))
	}
	name := opts.Database
	for _, gone := range [][]string{{"TABLE " + name + ".parley_migrations", "VIEW " + name + ".events", "TABLE " + name + ".events_raw"}, {"DATABASE " + name}} {
		for _, desc := range gone {
			server.Ask(t, "DROP "+desc+" SYNC")
		}
		if err := late.Write(t.Context(), clitest.Events(t)); !errors.Is(err, clickhouse.ErrNoSchema) {
			t.Errorf("without %s: %v, want %v", gone, err, clickhouse.ErrNoSchema)
		}
		if err := late.Write(t.Context(), clitest.Events(t)); err != nil {
			t.Errorf("again without %s: %v", gone, err)
		}
	}
	if err := late.close(); err != nil {
		t.Error(err)
	}
}
