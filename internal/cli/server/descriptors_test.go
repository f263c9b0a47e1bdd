package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/noderun"
)

// A server with 100 file descriptors keeps serving under more connections, some of them idle, and
// keeps descriptors for their requests.
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
		fmt.Fprintf(c, "GET %s?view=updates&offset=-1 HTTP/1.1\r\nHost: %s\r\n\r\n", u.Path, u.Host)
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
	if logs := n.Logs.String(); strings.Contains(logs, "too many open files") || !strings.Contains(logs, "file descriptor limit is low") {
		t.Error(logs)
	}
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
