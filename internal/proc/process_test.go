package proc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

// liveness bounds the wait for an expected event. It only matters when a test fails.
const liveness = time.Minute

func start(t *testing.T, r *proc.Reaper, script string) *proc.Process {
	t.Helper()
	return startAs(t, r, proc.Command{Env: []string{"SAYS=hello"}, Log: t.TempDir() + "/log"}, script)
}

func startAs(t *testing.T, r *proc.Reaper, c proc.Command, script string) *proc.Process {
	t.Helper()
	c.Args = []string{"sh", "-c", script}
	p, err := r.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessEnds(t *testing.T) {
	send := func(signals ...syscall.Signal) func(*proc.Process) {
		return func(p *proc.Process) {
			for _, s := range signals {
				p.Signal(s)
			}
		}
	}
	const waits, onTERM = "echo; exec sleep 60", "trap 'exit %d' TERM; echo; while :; do sleep 0.01; done"
	for name, c := range map[string]struct {
		script string
		ask    func(p *proc.Process)
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
		"signalled": {waits, func(p *proc.Process) {
			p.Signal(syscall.SIGSTOP)
			p.Quit()
		}, -1, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, proc.ReaperOf(t), c.script)
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
	r := proc.ReaperOf(t)
	if line, err := start(t, r, "echo at $SAYS; exec sleep 60").Await(t.Context()); line != "at hello" || err != nil {
		t.Errorf("ready process: Await returned %q, %v", line, err)
	}
	p := start(t, r, "printf half; exit 3")
	if _, err := p.Await(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3") || p.Served() {
		t.Errorf("Await of an ended process: %v, served %t", err, p.Served())
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, fmt.Errorf("enough"))
	defer cancel()
	if _, err := start(t, r, "exec sleep 60").Await(ctx); err == nil || err.Error() != "enough" {
		t.Errorf("process without output: Await returned %v", err)
	}
}

// TestCommand checks the environment of a process and the destination of its output.
func TestCommand(t *testing.T) {
	t.Setenv("PARLEY_PROC_OTHER", "other")
	dir, r := t.TempDir(), proc.ReaperOf(t)
	log := filepath.Join(dir, "log")
	run := func(c proc.Command, script string) *proc.Process {
		c.Log = log
		p := startAs(t, r, c, script)
		<-p.Ended()
		return p
	}
	const listens = "echo $SAYS $PARLEY_PROC_OTHER >&2"
	for _, c := range []struct {
		name string
		c    proc.Command
		in   string
		want string
	}{
		{"the environment", proc.Command{Env: []string{"SAYS=one"}}, listens, "one other\n"},
		{"one of its own, in the same file", proc.Command{Env: []string{"SAYS=two"}, Clean: true, Append: true}, listens, "one other\ntwo\n"},
		{"a folder, and a file anew", proc.Command{Dir: dir}, "echo there > here; echo in >&2", "in\n"},
		{"both outputs", proc.Command{Mixed: true}, "echo out; echo err >&2", "out\nerr\n"},
	} {
		if p := run(c.c, c.in); string(p.Printed()) != c.want || c.c.Mixed && p.Served() {
			t.Errorf("%s: printed %q, want %q; served %t", c.name, p.Printed(), c.want, p.Served())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "here")); err != nil {
		t.Error(err)
	}
	if _, err := r.Start(proc.Command{Args: []string{"sleep", "60"}, Log: dir}); err == nil {
		t.Error("a process logs to a folder")
	}
}

func TestStop(t *testing.T) {
	const onTERM = "trap '%s' TERM; echo; while :; do sleep 0.01; done"
	for name, c := range map[string]struct {
		script string
		within time.Duration
		want   string
	}{
		"in order":     {fmt.Sprintf(onTERM, "exit 0"), liveness, ""},
		"out of order": {fmt.Sprintf(onTERM, "exit 3"), liveness, "exit status 3"},
		"not at all":   {fmt.Sprintf(onTERM, ""), 50 * time.Millisecond, "still running 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, proc.ReaperOf(t), c.script)
			<-p.Ready()
			err := p.Stop(c.within)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("stopped with %v, want %q", err, c.want)
			}
			select {
			case <-p.Ended():
			default:
				t.Error("process still runs")
			}
		})
	}
	killed, gone := start(t, proc.ReaperOf(t), "echo; exec sleep 60"), start(t, proc.ReaperOf(t), "exit 4")
	killed.Kill()
	if err := killed.Stop(liveness); err != nil {
		t.Errorf("Stop of a killed process: %v", err)
	}
	<-gone.Ended()
	if err := gone.Stop(liveness); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("Stop of an ended process: %v", err)
	}
}

func TestFlaws(t *testing.T) {
	p := start(t, proc.ReaperOf(t), "exit 0")
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
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || proc.Tail(p.Log, 4) != c.out[len(c.out)-4:] {
			t.Errorf("%s: flaws %q, want one with %q", name, got, c.want)
		}
	}
	if err := os.Remove(p.Log); err != nil {
		t.Fatal(err)
	}
	if len(p.Flaws()) == 0 {
		t.Error("unreadable log: got no flaws")
	}
}

// TestNothingIsLeft kills one process, and checks that the others end with their test.
func TestNothingIsLeft(t *testing.T) {
	var one, other *proc.Process
	t.Run("inner", func(t *testing.T) {
		r := proc.ReaperOf(t)
		one, other = start(t, r, "echo; exec sleep 600"), start(t, r, "echo; exec sleep 600")
		<-one.Ready()
		<-other.Ready()
		one.Kill()
		if err := syscall.Kill(other.PID(), 0); err != nil || one.Flaw() != "" {
			t.Errorf("the other process has ended: %v; %s", err, one.Flaw())
		}
		one.Signal(syscall.SIGTERM) // Must not reach another process.
	})
	select {
	case <-other.Ended():
	default:
		t.Error("process outlives its test")
	}
}

// TestStartAfterTheEnd checks that a closed reaper starts no process.
func TestStartAfterTheEnd(t *testing.T) {
	var r *proc.Reaper
	t.Run("test", func(t *testing.T) { r = proc.ReaperOf(t) })
	if _, err := r.Start(proc.Command{Args: []string{"sleep", "60"}}); !errors.Is(err, proc.ErrClosed) {
		t.Errorf("a process after its test: %v, want ErrClosed", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// TestReap checks that ended processes are not killed, and announced ones that have not ended are.
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
	reap := exec.Command("sh", "-c", proc.Reap)
	reap.Stdin = strings.NewReader(fmt.Sprintf("+%d\n+%d\n+%d\n-%[1]d\n-%[3]d\n+%[3]d\n", ended.Process.Pid, left.Process.Pid, again.Process.Pid))
	if out, err := reap.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, cmd := range []*exec.Cmd{left, again} {
		if err := cmd.Wait(); err == nil {
			t.Errorf("process %d still runs", cmd.Process.Pid)
		}
	}
	if err := ended.Process.Kill(); err != nil {
		t.Errorf("a process announced as ended was killed: %v", err)
	}
	_ = ended.Wait()
}

const roleEnv = "PARLEY_PROC_TEST_ROLE"

// TestNothingOutlivesItsOwner runs itself in another process, which is killed or exits without any
// cleanup. Its children hold a pipe open.
func TestNothingOutlivesItsOwner(t *testing.T) {
	if fifo := os.Getenv(roleEnv); fifo != "" {
		r := proc.ReaperOf(t)
		<-start(t, r, "exec 4>"+fifo+"; echo; exec sleep 600").Ready()
		fmt.Println(tempDir(t, r))
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	for name, end := range map[string]func(cmd *exec.Cmd, stdin io.Closer) error{
		"exit":    func(_ *exec.Cmd, stdin io.Closer) error { return stdin.Close() },
		"SIGKILL": func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) { endsWithItsOwner(t, end) })
	}
}

func endsWithItsOwner(t *testing.T, end func(cmd *exec.Cmd, stdin io.Closer) error) {
	fifo := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestNothingOutlivesItsOwner$")
	cmd.Env = append(os.Environ(), roleEnv+"="+fifo, "TMPDIR="+t.TempDir())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	dir, err := bufio.NewReader(stdout).ReadString('\n')
	if _, bad := os.Stat(strings.TrimSpace(dir)); err != nil || bad != nil {
		t.Fatalf("the owner printed %q: %v, %v", dir, err, bad)
	}
	if err := end(cmd, stdin); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // The test determines how it ends.
	if err := pipe.SetReadDeadline(time.Now().Add(liveness)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(pipe); err != nil {
		t.Errorf("a process still runs: %v", err)
	}
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(strings.TrimSpace(dir)); errors.Is(err, fs.ErrNotExist) {
			return
		} else if time.Since(began) > liveness {
			t.Fatalf("folder still exists: %v", err)
		}
	}
}

// tempDir creates a folder with a file.
func tempDir(t *testing.T, r *proc.Reaper) string {
	t.Helper()
	dir, err := r.TempDir("of a test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTempDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := proc.ReaperOf(t)
	dirs := []string{tempDir(t, r), tempDir(t, r)}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s still exists: %v", dir, err)
		}
	}
	if dir, err := r.TempDir("late"); !errors.Is(err, proc.ErrClosed) {
		t.Errorf("after the end: %q, %v, want ErrClosed", dir, err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
