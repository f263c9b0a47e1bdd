package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeOutlivesWhoReadsItsEvents has a standard output whose reader is gone, and one
// whose reader is stuck: conversations go on, and the server ends when it shall.
func TestServeOutlivesWhoReadsItsEvents(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(r, w *os.File){
		"gone":  func(r, _ *os.File) { _ = r.Close() },
		"stuck": func(_, w *os.File) { fill(t, w) },
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			prepare(r, w)
			dir := t.TempDir()
			errOut := newSpoken(t)
			n := &node{t: t, done: make(chan error, 1)}
			n.cmd = exec.Command(program, "serve", "--quiet", "--config", echoConfig(t, dir, dirBucket(dir), "events: {stdout: true}"))
			n.cmd.Stdout, n.cmd.Stderr = w, errOut
			if err := n.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			go func() { n.done <- n.cmd.Wait() }()
			t.Cleanup(n.kill)
			for !strings.HasPrefix(n.base, "http://") {
				select {
				case n.base = <-errOut.all:
				case <-time.After(systemTimeout):
					t.Fatal("no URL")
				}
			}
			for i := range 3 {
				at := n.url(t, fmt.Sprint("c", i))
				r := admitted(t, at, "k", "hello")
				newReader(t, r.Offset).until(at, r.Offset, settled(r.SubmissionID))
			}
			if err := n.end(syscall.SIGTERM); err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
		})
	}
}

// fill writes to a pipe until it takes no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.Write(make([]byte, 1<<20)); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestServeWithoutItsCollector: nobody waits for a collector, also not at the end.
func TestServeWithoutItsCollector(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	dir := t.TempDir()
	n := startProgram(t, "serve", "--quiet", "--config", echoConfig(t, dir, dirBucket(dir), fmt.Sprintf("events: {otel: {endpoint: %q}}", away.URL)))
	at := n.url(t, "a")
	r := admitted(t, at, "k", "hello")
	newReader(t, r.Offset).until(at, r.Offset, settled(r.SubmissionID))
	if err := n.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, n.logs)
	}
	if logs := n.logs.String(); !strings.Contains(logs, "the last traces and metrics were not sent") {
		t.Errorf("the log says nothing of what was not sent:\n%s", logs)
	}
}
