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

// quitTimeout is how long a process may take to tell what its goroutines wait for.
const quitTimeout = 10 * time.Second

// Process is one life of a program.
type Process struct {
	Log   string    // File of what it prints to its standard error.
	Began time.Time // When it was started.

	cmd    *exec.Cmd
	stdout io.Reader     // Nil if it goes to the log.
	line   string        // The first of it. Set before ready is closed.
	ready  chan struct{} // Closed once it has printed that.
	ended  chan struct{} // Closed once it was waited for.

	mu      sync.Mutex
	killed  bool // It was sent SIGKILL.
	stopped bool // It was sent SIGTERM.
}

// wait reads what the process prints until it ends.
func (p *Process) wait() {
	if p.stdout != nil {
		lines := bufio.NewReader(p.stdout)
		if line, err := lines.ReadString('\n'); err == nil {
			p.line = strings.TrimSpace(line)
			close(p.ready)
		}
		_, _ = io.Copy(io.Discard, lines) // It ends with the process.
	}
	_ = p.cmd.Wait() // How it ended shows in its state.
}

// Ready is closed once the process has printed a line to its standard output, which a
// server does as soon as it listens.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// Ended is closed once the process has ended and was waited for.
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

// Await waits until the process is ready, and returns the line that it printed. It is
// an error if the process ends before, or ctx does.
func (p *Process) Await(ctx context.Context) (line string, err error) {
	select {
	case <-p.ready:
		return p.line, nil
	case <-p.ended:
		return "", fmt.Errorf("it ended before it was ready: %v", p.cmd.ProcessState)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (p *Process) Served() bool { return closed(p.ready) }

// PID is the id of the process, which may be another's once it has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the process, which may have ended: how it did is found out
// later.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	p.killed = p.killed || s == syscall.SIGKILL
	p.stopped = p.stopped || s == syscall.SIGTERM
	p.mu.Unlock()
	_ = p.cmd.Process.Signal(s)
}

// Kill ends the process as the end of its power would, and waits for it.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Stop asks the process to end and waits for it. One that goes on for too long is killed.
// It is an error if it had to be, or if it ended in another way than it was asked to.
func (p *Process) Stop(within time.Duration) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("it went on for %v after SIGTERM", within)
	}
	if flaw := p.Flaw(); flaw != "" {
		return errors.New(flaw)
	}
	return nil
}

// Quit ends a process that hangs and waits for it. It prints what its goroutines wait
// for.
func (p *Process) Quit() {
	p.Signal(syscall.SIGCONT)
	p.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(quitTimeout):
		p.Kill()
	}
}

// ExitCode is what the process returned, -1 if a signal ended it. It has ended.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Flaw says how the process ended, "" if it was asked to end so. It has ended.
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
	return fmt.Sprintf("it ended by itself, or not as it was asked to: %v", state)
}

// Printed returns what the process has printed so far, or why that cannot be read.
func (p *Process) Printed() []byte { return []byte(Tail(p.Log, math.MaxInt)) }

// Flaws finds in what the process has printed what may not be there: a race, a panic,
// or one of secrets that is not empty.
func (p *Process) Flaws(secrets ...string) (flaws []string) {
	out, err := os.ReadFile(p.Log)
	if err != nil {
		return []string{err.Error()}
	}
	for _, bad := range append([]string{"DATA RACE", "panic:", "fatal error:", "cause=\"panic"}, secrets...) {
		if at := bytes.Index(out, []byte(bad)); bad != "" && at >= 0 {
			flaws = append(flaws, fmt.Sprintf("it printed %s: %s", bad, out[max(0, at-500):min(len(out), at+6000)]))
		}
	}
	return flaws
}

// Tail is the end of what processes have printed to a log, at most so many bytes, or why
// it cannot be read.
func Tail(log string, most int) string {
	out, err := os.ReadFile(log)
	if err != nil {
		out = []byte(err.Error())
	}
	return string(out[max(0, len(out)-most):])
}
