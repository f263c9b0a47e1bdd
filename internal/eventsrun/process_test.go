package eventsrun_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// announced tells the reaper who it is before it becomes the program.
const announced = `echo "+$$" >&3; exec 3>&-; exec "$@"`

// process is the life of a node.
type process struct {
	cmd   *exec.Cmd
	log   string        // File of what it prints.
	ready chan struct{} // Closed once it has printed where it serves.
	ended chan struct{} // Closed once it was waited for.
}

// startProcess starts a program and returns at once.
func startProcess(log string, env []string, command ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{log: log, ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command("sh", append([]string{"-c", announced, "sh"}, command...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr, p.cmd.ExtraFiles = out, []*os.File{reaper}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		lines := bufio.NewReader(stdout)
		if _, err := lines.ReadString('\n'); err == nil {
			close(p.ready)
		}
		_, _ = io.Copy(io.Discard, lines) // It ends with the process.
		_ = p.cmd.Wait()                  // How it ended shows in its state.
		fmt.Fprintf(reaper, "-%d\n", p.cmd.Process.Pid)
	}()
	return p, nil
}

// kill ends it as the end of its power would, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // It may have ended.
	<-p.ended
}

// wasKilled reports whether SIGKILL ended it. It has ended.
func (p *process) wasKilled() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// flaws finds in what it printed what may not be there.
func (p *process) flaws() (flaws []string) {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return []string{err.Error()}
	}
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "cause=\"panic"} {
		if at := bytes.Index(out, []byte(bad)); at >= 0 {
			flaws = append(flaws, fmt.Sprintf("it printed %s: %s", bad, out[max(0, at-500):min(len(out), at+6000)]))
		}
	}
	return flaws
}

// tail is the end of what it printed.
func (p *process) tail() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(out[max(0, len(out)-8<<10):])
}
