package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// quitTimeout bounds the goroutine dump of a hung process.
const quitTimeout = 10 * time.Second

// Process is one run of a program.
type Process struct {
	Log   string    // File of its standard error.
	Began time.Time // Start time.

	cmd    *exec.Cmd
	stdout io.Reader     // Nil if it goes to the log.
	line   string        // First line of stdout. Set before ready is closed.
	ready  chan struct{} // Closed after the first line.
	ended  chan struct{} // Closed after the process was waited for.

	mu      sync.Mutex
	killed  bool // It was sent SIGKILL.
	stopped bool // It was sent SIGTERM.
}

// wait reads the output of the process until it ends.
func (p *Process) wait() {
	if p.stdout != nil {
		lines := bufio.NewReader(p.stdout)
		if line, err := lines.ReadString('\n'); err == nil {
			p.line = strings.TrimSpace(line)
			close(p.ready)
		}
		_, _ = io.Copy(io.Discard, lines) // The copy ends with the process.
	}
	_ = p.cmd.Wait() // The state holds the result.
}

// Ready returns a channel that is closed once the process has printed a line to its standard output,
// which a server does when it listens.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// Ended returns a channel that is closed once the process has ended and was waited for.
func (p *Process) Ended() <-chan struct{} { return p.ended }

func (p *Process) HasEnded() bool { return closed(p.ended) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Await waits until the process is ready and returns its first line. It returns an error if the
// process or ctx ends first.
func (p *Process) Await(ctx context.Context) (line string, err error) {
	select {
	case <-p.ready:
		return p.line, nil
	case <-p.ended:
		return "", fmt.Errorf("process ended before it was ready: %v", p.cmd.ProcessState)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *Process) Served() bool { return closed(p.ready) }

// PID returns the id of the process. It may be reused once the process has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process, which may have ended already.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	p.killed = p.killed || s == syscall.SIGKILL
	p.stopped = p.stopped || s == syscall.SIGTERM
	p.mu.Unlock()
	_ = p.cmd.Process.Signal(s)
}

// Kill sends SIGKILL and waits for the end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Stop sends SIGTERM and waits for the end. It kills a process that exceeds within. It returns an
// error then, or if the process ended in any other way.
func (p *Process) Stop(within time.Duration) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("still running %v after SIGTERM", within)
	}
	if flaw := p.Flaw(); flaw != "" {
		return errors.New(flaw)
	}
	return nil
}

// Quit ends a hung process, which prints its goroutines, and waits for it.
func (p *Process) Quit() {
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(quitTimeout):
		p.Kill()
	}
}

// ExitCode returns the exit code, -1 if a signal ended the process. The process has ended.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Flaw describes an unexpected end of the process, "" if the end was requested. The process has ended.
func (p *Process) Flaw() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := p.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case p.killed && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return ""
	case p.stopped && state.Success():
		return ""
	}
	return fmt.Sprintf("unexpected end: %v", state)
}

// Printed returns the output of the process so far, or the read error as text.
func (p *Process) Printed() []byte { return []byte(Tail(p.Log, math.MaxInt)) }

// Flaws searches the output of the process for forbidden content: a race, a panic, or one of secrets
// that is not empty.
func (p *Process) Flaws(secrets ...string) (flaws []string) {
	out, err := os.ReadFile(p.Log)
	if err != nil {
		return []string{err.Error()}
	}
	for _, bad := range append([]string{"DATA RACE", "panic:", "fatal error:", "cause=\"panic"}, secrets...) {
		if at := bytes.Index(out, []byte(bad)); bad != "" && at >= 0 {
			flaws = append(flaws, fmt.Sprintf("output contains %s: %s", bad, out[max(0, at-500):min(len(out), at+6000)]))
		}
	}
	return flaws
}

// Tail returns at most most bytes from the end of a log, or the read error as text.
func Tail(log string, most int) string {
	out, err := os.ReadFile(log)
	if err != nil {
		out = []byte(err.Error())
	}
	return string(out[max(0, len(out)-most):])
}
