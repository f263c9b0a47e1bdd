package clusterrun_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// announced tells the reaper who it is before it becomes the program.
const announced = `echo "+$$" >&3; exec 3>&-; exec "$@"`

// process is one life of a node.
type process struct {
	cmd   *exec.Cmd
	log   string // File of what it prints.
	began time.Time
	ready chan struct{} // Closed once it has printed where it serves.
	ended chan struct{} // Closed once it was waited for.

	mu    sync.Mutex
	asked syscall.Signal // What it was sent to end it, 0 for nothing.
}

// startProcess starts a program and returns at once.
func startProcess(log string, env []string, command ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{log: log, began: time.Now(), ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command("sh", append([]string{"-c", announced, "sh"}, command...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr, p.cmd.ExtraFiles = out, []*os.File{shared.reaper}
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
		fmt.Fprintf(shared.reaper, "-%d\n", p.cmd.Process.Pid)
	}()
	return p, nil
}

// signal sends a signal to a process that may have ended, which is found out later.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	if s == syscall.SIGKILL || s == syscall.SIGTERM && p.asked == 0 {
		p.asked = s
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Signal(s)
}

// kill ends it as the end of its power would, and waits for it.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// quit ends a process that hangs; it prints what its goroutines wait for.
func (p *process) quit() {
	p.signal(syscall.SIGCONT)
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

// served reports whether it ever was ready. It has ended.
func (p *process) served() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// exitReplaced is the exit code of a node that is not a member any more. Whoever runs
// it starts it again.
const exitReplaced = 75

// end says how it ended: flaw is what nobody asked it for. It has ended.
func (p *process) end() (replaced bool, flaw string) {
	p.mu.Lock()
	asked := p.asked
	p.mu.Unlock()
	state := p.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case asked == syscall.SIGKILL && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return false, ""
	case asked == syscall.SIGTERM && state.Success():
		return false, ""
	case state.ExitCode() == exitReplaced:
		return true, ""
	}
	return false, fmt.Sprintf("the node ended by itself, or not as it was asked to: %v", state)
}

// maxOutput bounds what a failed run shows of a node's output, in bytes.
const maxOutput = 16 << 10

// secret begins what messages say. No log may have it.
const secret = "note=body-"

// printed returns what the process has printed, or said why not.
func (p *process) printed() []byte {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return out
}

// flawsOf finds in the output of a node what may not be there.
func flawsOf(out []byte) (flaws []string) {
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "cause=\"panic", secret} {
		if at := bytes.Index(out, []byte(bad)); at >= 0 {
			flaws = append(flaws, fmt.Sprintf("the node printed %s: %s", bad, out[max(0, at-500):min(len(out), at+6000)]))
		}
	}
	return flaws
}

func TestFlawsOf(t *testing.T) {
	for name, c := range map[string]struct {
		out  string
		want string
	}{
		"a clean log": {"level=INFO msg=\"joined\"\n", ""},
		"a race":      {"level=INFO\nWARNING: DATA RACE\n", "DATA RACE"},
		"a panic":     {"panic: runtime error\n", "panic:"},
		"a message":   {"level=WARN msg=refused text=\"note=body-7.1 tokens=3\"\n", secret},
	} {
		got := strings.Join(flawsOf([]byte(c.out)), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: flaws %q, want one with %q", name, got, c.want)
		}
	}
}

func TestProcessEnds(t *testing.T) {
	for name, c := range map[string]struct {
		script   string
		ask      func(p *process)
		replaced bool
		flaw     bool
	}{
		"killed":                {"echo; exec sleep 60", func(p *process) { p.signal(syscall.SIGKILL) }, false, false},
		"killed by others":      {"echo; kill -9 $$", func(*process) {}, false, true},
		"ended in order":        {"trap 'exit 0' TERM; echo; while :; do sleep 0.01; done", func(p *process) { p.signal(syscall.SIGTERM) }, false, false},
		"ended out of order":    {"trap 'exit 1' TERM; echo; while :; do sleep 0.01; done", func(p *process) { p.signal(syscall.SIGTERM) }, false, true},
		"replaced":              {"echo; exit 75", func(*process) {}, true, false},
		"went away without one": {"echo; exit 0", func(*process) {}, false, true},
		"killed in a pause": {"echo; exec sleep 60", func(p *process) {
			p.signal(syscall.SIGSTOP)
			p.signal(syscall.SIGKILL)
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := startProcess(t.TempDir()+"/log", nil, "sh", "-c", c.script)
			if err != nil {
				t.Fatal(err)
			}
			<-p.ready
			c.ask(p)
			<-p.ended
			if replaced, flaw := p.end(); replaced != c.replaced || (flaw != "") != c.flaw {
				t.Errorf("replaced %t, flaw %q; want %t, %t", replaced, flaw, c.replaced, c.flaw)
			}
		})
	}
}
