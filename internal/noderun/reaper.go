package noderun

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// reap reads ids with a sign before them, + for a process that begins and - for one
// that was waited for, until there is nobody to write any. Then it kills what is left.
const reap = `
trap '' HUP INT TERM
while read -r id; do
	case $id in
	+*) left="$left ${id#+}" ;;
	-*)
		others=
		for p in $left; do [ "$p" = "${id#-}" ] || others="$others $p"; done
		left=$others ;;
	esac
done
[ -z "$left" ] || kill -9 $left`

// announced tells the reaper who it is before it becomes the program.
const announced = `echo "+$$" >&3 || exit 1; exec 3>&-; exec "$@"`

// Reaper starts processes and sees to it that none is left.
type Reaper struct {
	pipe *os.File

	mu      sync.Mutex
	started []*Process
	closed  bool // The test is over.
}

// StartReaper starts a reaper for the processes of a test. When t ends, what still runs
// is killed and waited for.
func StartReaper(t testing.TB) *Reaper {
	t.Helper()
	ids, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	cmd := exec.Command("sh", "-c", reap)
	cmd.Stdin, cmd.Stderr = ids, os.Stderr
	if err := cmd.Start(); err != nil {
		pipe.Close()
		t.Fatalf("start reaper: %v", err)
	}
	r := &Reaper{pipe: pipe}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.closed = true
		for _, p := range r.started {
			p.Kill()
		}
		pipe.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("reaper: %v", err)
		}
	})
	return r
}

// Start starts a program and returns at once. What the program prints to its standard
// error goes to the file log, which is made anew; env is added to the environment of
// the test.
func (r *Reaper) Start(log string, env []string, command ...string) (*Process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("sh", append([]string{"-c", announced, "sh"}, command...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr, cmd.ExtraFiles = out, []*os.File{r.pipe}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("start %s: the test is over", command[0])
	}
	p := newProcess(cmd, log)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command[0], err)
	}
	r.started = append(r.started, p)
	go func() {
		defer close(p.ended)
		p.wait(stdout)
		fmt.Fprintf(r.pipe, "-%d\n", p.PID())
	}()
	return p, nil
}
