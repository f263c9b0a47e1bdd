package clitest

import (
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/internal/waiting"
)

// Timeout bounds what a test waits for; it only matters when it fails.
const Timeout = waiting.Limit

// Node is a running "parley dev" or "parley serve".
type Node struct {
	T    *testing.T
	Cmd  *exec.Cmd
	Base string // URL of the agent
	Logs *waiting.Log
	done chan struct{} // closed when it was waited for
	err  error         // what it ended with
}

// Run starts the process of a node, which is killed when the test ends. What it prints to
// a standard error of its own is logs.
func Run(t *testing.T, cmd *exec.Cmd) *Node {
	t.Helper()
	n := &Node{T: t, Cmd: cmd, Logs: &waiting.Log{}, done: make(chan struct{})}
	if cmd.Stderr == nil {
		cmd.Stderr = n.Logs
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(n.done)
		n.err = cmd.Wait()
	}()
	t.Cleanup(n.Kill)
	return n
}

// Kill ends the process as a power cut would, and waits for it.
func (n *Node) Kill() { _ = n.End(syscall.SIGKILL) }

// End sends the process a signal, and waits for it: what it returns is how it ended.
func (n *Node) End(sig os.Signal) error {
	_ = n.Cmd.Process.Signal(sig) // It may have ended.
	return n.Wait()
}

// Wait waits for the process: what it returns is how it ended.
func (n *Node) Wait() error {
	waiting.For(n.T, n.done, "the end of the process")
	return n.err
}

func (n *Node) ended() bool {
	select {
	case <-n.done:
		return true
	default:
		return false
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
