package clitest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/conversation"
)

// Timeout bounds what a test waits for; it only matters when it fails.
const Timeout = time.Minute

// Node is a running "parley dev" or "parley serve".
type Node struct {
	T    *testing.T
	Cmd  *exec.Cmd
	Base string           // URL of the agent
	Logs *strings.Builder // to be read when the process has ended
	Done chan error       // what the process ended with; nil if it was waited for
}

// Kill ends the process as a power cut would, and waits for it.
func (n *Node) Kill() { n.End(syscall.SIGKILL) }

// End sends the process a signal, and waits for it: what it returns is how it ended.
func (n *Node) End(sig os.Signal) error {
	if n.Done == nil {
		return nil
	}
	_ = n.Cmd.Process.Signal(sig)
	select {
	case err := <-n.Done:
		n.Done = nil
		return err
	case <-time.After(Timeout):
		_ = n.Cmd.Process.Kill()
		n.T.Fatalf("the process did not end after %v", sig)
		return nil
	}
}

// URL is that of a conversation; the id is escaped.
func (n *Node) URL(t *testing.T, id string) *url.URL {
	u, err := url.Parse(n.Base + "/" + id)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// History fetches and decodes a snapshot.
func History(t *testing.T, at *url.URL) conversation.Snapshot {
	t.Helper()
	resp, err := http.Get(at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %v, %v, %s", at, err, resp.StatusCode, body)
	}
	var s conversation.Snapshot
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
