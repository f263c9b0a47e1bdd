package server

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
)

// The reader of standard output is gone, or blocks: conversations continue, and the server ends on
// request.
func TestServeOutlivesEventReader(t *testing.T) {
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
			cmd := program.Command("serve", "--quiet", "--config", clitest.EchoConfig(t, dir, clitest.DirBucket(dir), "events: {stdout: true}"))
			cmd.Stdout, cmd.Stderr = w, errOut
			n := clitest.Run(t, cmd)
			for !strings.HasPrefix(n.Base, "http://") {
				select {
				case n.Base = <-errOut.all:
				case <-time.After(clitest.Timeout):
					t.Fatal("no URL")
				}
			}
			for i := range 3 {
				at := n.URL(t, fmt.Sprint("c", i))
				r := clitest.Admitted(t, at, "k", "hello")
				clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
			}
			if err := n.End(syscall.SIGTERM); err != nil {
				t.Errorf("SIGTERM: %v", err)
			}
		})
	}
}

// fill writes to a pipe until it is full.
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

// A server does not wait for its collector, not even at shutdown.
func TestServeWithoutItsCollector(t *testing.T) {
	dir := t.TempDir()
	n := program.Start(t, "serve", "--quiet", "--config", clitest.EchoConfig(t, dir, clitest.DirBucket(dir), fmt.Sprintf("events: {otel: {endpoint: %q}}", "http://"+noderun.Refusing(t))))
	at := n.URL(t, "a")
	r := clitest.Admitted(t, at, "k", "hello")
	clitest.NewReader(t, r.Offset).Until(at, r.Offset, clitest.Settled(r.SubmissionID))
	if err := n.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, n.Logs)
	}
	if logs := n.Logs.String(); !strings.Contains(logs, "flush of traces and metrics failed") {
		t.Errorf("the log does not report the failed flush:\n%s", logs)
	}
}
