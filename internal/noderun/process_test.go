package noderun_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
)

// liveness bounds a wait for something that has to happen. It only matters when a test
// fails.
const liveness = time.Minute

func start(t *testing.T, r *noderun.Reaper, script string) *noderun.Process {
	t.Helper()
	p, err := r.Start(t.TempDir()+"/log", []string{"SAYS=hello"}, "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessEnds(t *testing.T) {
	send := func(signals ...syscall.Signal) func(*noderun.Process) {
		return func(p *noderun.Process) {
			for _, s := range signals {
				p.Signal(s)
			}
		}
	}
	const waits, onTERM = "echo; exec sleep 60", "trap 'exit %d' TERM; echo; while :; do sleep 0.01; done"
	for name, c := range map[string]struct {
		script string
		ask    func(p *noderun.Process)
		code   int
		flaw   bool
	}{
		"killed":                {waits, send(syscall.SIGKILL), -1, false},
		"killed by others":      {"echo; kill -9 $$", send(), -1, true},
		"killed in a pause":     {waits, send(syscall.SIGSTOP, syscall.SIGKILL), -1, false},
		"ended in order":        {fmt.Sprintf(onTERM, 0), send(syscall.SIGTERM), 0, false},
		"ended out of order":    {fmt.Sprintf(onTERM, 1), send(syscall.SIGTERM), 1, true},
		"went away with a code": {"echo; exit 75", send(), 75, true},
		"went away without one": {"echo; exit 0", send(), 0, true},
		"told what it waits for": {waits, func(p *noderun.Process) {
			p.Signal(syscall.SIGSTOP)
			p.Quit()
		}, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, noderun.StartReaper(t), c.script)
			<-p.Ready()
			c.ask(p)
			<-p.Ended()
			if code, flaw := p.ExitCode(), p.Flaw(); code != c.code || (flaw != "") != c.flaw || !p.Served() {
				t.Errorf("exit code %d, flaw %q, served %t; want %d and a flaw %t", code, flaw, p.Served(), c.code, c.flaw)
			}
		})
	}
}

func TestAwait(t *testing.T) {
	r := noderun.StartReaper(t)
	if line, err := start(t, r, "echo at $SAYS; exec sleep 60").Await(t.Context()); line != "at hello" || err != nil {
		t.Errorf("a process that is ready says %q, %v", line, err)
	}
	p := start(t, r, "printf half; exit 3")
	if _, err := p.Await(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") || p.Served() {
		t.Errorf("a process that ended is awaited with %v, served %t", err, p.Served())
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, fmt.Errorf("enough"))
	defer cancel()
	if _, err := start(t, r, "exec sleep 60").Await(ctx); err == nil || err.Error() != "enough" {
		t.Errorf("a process that says nothing is awaited with %v", err)
	}
}

func TestFlaws(t *testing.T) {
	p := start(t, noderun.StartReaper(t), "exit 0")
	<-p.Ended()
	for name, c := range map[string]struct{ out, want string }{
		"a clean log": {"level=INFO msg=\"joined\"\n", ""},
		"a race":      {"level=INFO\nWARNING: DATA RACE\n", "DATA RACE"},
		"a panic":     {"panic: runtime error\n", "panic:"},
		"a message":   {"level=WARN msg=refused text=\"note=body-7.1 tokens=3\"\n", "note=body-"},
	} {
		if err := os.WriteFile(p.Log, []byte(c.out), 0o600); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(p.Flaws("note=body-"), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || p.Tail(4) != c.out[len(c.out)-4:] {
			t.Errorf("%s: flaws %q, want one with %q", name, got, c.want)
		}
	}
	if err := os.Remove(p.Log); err != nil {
		t.Fatal(err)
	}
	if len(p.Flaws()) == 0 {
		t.Error("a log that cannot be read has no flaws")
	}
}

// TestNothingIsLeft shows that one process is killed at a time, and the others with
// their test.
func TestNothingIsLeft(t *testing.T) {
	var one, other *noderun.Process
	t.Run("inner", func(t *testing.T) {
		r := noderun.StartReaper(t)
		one, other = start(t, r, "echo; exec sleep 600"), start(t, r, "echo; exec sleep 600")
		<-one.Ready()
		<-other.Ready()
		one.Kill()
		if err := syscall.Kill(other.PID(), 0); err != nil || one.Flaw() != "" {
			t.Errorf("the other process is gone: %v; %s", err, one.Flaw())
		}
		one.Signal(syscall.SIGTERM) // To nobody.
	})
	select {
	case <-other.Ended():
	default:
		t.Error("a process has outlived its test")
	}
}

// TestReap shows that what has ended is not killed, and what was announced and did not
// end is.
// TestStartAfterTheEnd: nobody would reap what is started then.
func TestStartAfterTheEnd(t *testing.T) {
	var r *noderun.Reaper
	t.Run("test", func(t *testing.T) { r = noderun.StartReaper(t) })
	if p, err := r.Start(t.TempDir()+"/log", nil, "sleep", "60"); err == nil {
		p.Kill()
		t.Error("a process was started after its test")
	}
}

func TestReap(t *testing.T) {
	var all []*exec.Cmd
	for range 3 {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	ended, left, again := all[0], all[1], all[2]
	reap := exec.Command("sh", "-c", noderun.Reap)
	reap.Stdin = strings.NewReader(fmt.Sprintf("+%d\n+%d\n+%d\n-%[1]d\n-%[3]d\n+%[3]d\n", ended.Process.Pid, left.Process.Pid, again.Process.Pid))
	if out, err := reap.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, cmd := range []*exec.Cmd{left, again} {
		if err := cmd.Wait(); err == nil {
			t.Errorf("process %d goes on", cmd.Process.Pid)
		}
	}
	if err := ended.Process.Kill(); err != nil {
		t.Errorf("a process that was said to have ended was killed: %v", err)
	}
	_ = ended.Wait()
}

const roleEnv = "PARLEY_NODERUN_TEST_ROLE"

// TestNothingOutlivesTheTestProcess runs itself in another process that ends without
// any cleanup. What that starts holds a pipe open.
func TestNothingOutlivesTheTestProcess(t *testing.T) {
	if fifo := os.Getenv(roleEnv); fifo != "" {
		<-start(t, noderun.StartReaper(t), "exec 4>"+fifo+"; echo; exec sleep 600").Ready()
		os.Exit(0)
	}
	fifo := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestNothingOutlivesTheTestProcess$")
	cmd.Env = append(os.Environ(), roleEnv+"="+fifo, "TMPDIR="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	if err := pipe.SetReadDeadline(time.Now().Add(liveness)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(pipe); err != nil {
		t.Errorf("a process goes on: %v", err)
	}
}
