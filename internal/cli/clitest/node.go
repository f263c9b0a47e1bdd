package clitest

import (
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/internal/waiting"
)

// Timeout bounds the waits of tests. It only matters when a test fails.
const Timeout = waiting.Limit

// Node is a running "parley dev" or "parley serve".
type Node struct {
	T    *testing.T
	Cmd  *exec.Cmd
	Base string // URL of the agent
	Logs *waiting.Log
	done chan struct{} // closed after the process was reaped
	err  error         // result of Wait
}

// Run starts the process of a node and kills it when the test ends. Its standard error is logged
// unless cmd sets one.
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

// Kill sends SIGKILL and waits for the process.
func (n *Node) Kill() { _ = n.End(syscall.SIGKILL) }

// End sends a signal and returns the result of the process.
func (n *Node) End(sig os.Signal) error {
	_ = n.Cmd.Process.Signal(sig) // It may have ended already.
	return n.Wait()
}

// Wait returns the result of the process.
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

// URL returns the URL of a conversation with an escaped id.
func (n *Node) URL(t *testing.T, id string) *url.URL {
	u, err := url.Parse(n.Base + "/" + id)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
