package proc

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// reap reads ids with a sign, + for a process that begins and - for one that was waited for, and names
// of folders, until its input ends. Then it kills the remaining processes and removes the folders.
// Killed processes may still write a file.
const reap = `
trap '' HUP INT TERM
while read -r id; do
	case $id in
	+*) left="$left ${id#+}" ;;
	-*)
		others=
		for p in $left; do [ "$p" = "${id#-}" ] || others="$others $p"; done
		left=$others ;;
	/*) set -- "$@" "$id" ;;
	esac
done
[ -z "$left" ] || kill -9 $left
code=$?
[ $# = 0 ] || rm -rf -- "$@" || { sleep 1; rm -rf -- "$@"; } || code=$?
exit $code`

// announced reports the process id to the reaper, then executes the program.
const announced = `echo "+$$" >&3 || exit 1; exec 3>&-; exec "$@"`

// ErrClosed reports a start after [Reaper.Close].
var ErrClosed = errors.New("reaper is closed")

// Reaper starts processes and guarantees their end.
type Reaper struct {
	pipe *os.File
	cmd  *exec.Cmd

	mu      sync.Mutex
	started []*Process
	closed  bool
}

// StartReaper starts a reaper. The caller closes it.
func StartReaper() (*Reaper, error) {
	ids, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ids.Close()
	cmd := exec.Command("sh", "-c", reap)
	cmd.Stdin, cmd.Stderr = ids, os.Stderr
	if err := cmd.Start(); err != nil {
		pipe.Close()
		return nil, fmt.Errorf("start reaper: %w", err)
	}
	return &Reaper{pipe: pipe, cmd: cmd}, nil
}

// ReaperOf starts a reaper for the processes of a test. When t ends, it kills the running ones and
// waits for them.
func ReaperOf(t Test) *Reaper {
	t.Helper()
	r, err := StartReaper()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("%v", err)
		}
	})
	return r
}

// Host returns a loopback address of this process, so that no other process takes a port there while
// its listener is down.
func Host() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, pid&255)
}

// given holds the addresses that FreeAddresses has returned.
var given sync.Map

// FreeAddresses returns n currently free addresses of a host, each once per process.
func FreeAddresses(host string, n int) (addresses []string, err error) {
	for len(addresses) < n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, fmt.Errorf("find free address: %w", err)
		}
		defer l.Close() // Close at the end, so that no port is returned twice.
		if _, twice := given.LoadOrStore(l.Addr().String(), true); !twice {
			addresses = append(addresses, l.Addr().String())
		}
	}
	return addresses, nil
}

// Close kills the running processes and waits for them. Later starts fail.
func (r *Reaper) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	for _, p := range r.started {
		p.Kill()
	}
	r.pipe.Close()
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("end reaper: %w", err)
	}
	return nil
}

// TempDir creates a folder. It is removed when reaper is closed or the owner ends in any other
// way.
func (r *Reaper) TempDir(pattern string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return "", fmt.Errorf("create folder: %w", ErrClosed)
	}
	dir, err := os.MkdirTemp("", pattern)
	if err != nil {
		return "", fmt.Errorf("create folder: %w", err)
	}
	if dir, err = filepath.Abs(dir); err == nil {
		_, err = fmt.Fprintln(r.pipe, dir)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("create folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// Command describes a process to start.
type Command struct {
	Args   []string // Program and its arguments.
	Env    []string // Added to the environment of this process.
	Clean  bool     // Inherit only PATH of that environment.
	Dir    string   // Working folder, "" for that of this process.
	Log    string   // File for its standard error, "" to discard it.
	Append bool     // Append to the file.
	Mixed  bool     // Standard output goes to the file as well; the process is then never ready.
}

// Start starts a program and returns at once. It returns [ErrClosed] if reaper is closed.
func (r *Reaper) Start(c Command) (p *Process, err error) {
	defer func() {
		if err != nil {
			p, err = nil, fmt.Errorf("start %s: %w", c.Args[0], err)
		}
	}()
	how := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if c.Append {
		how = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	log, err := os.OpenFile(cmp.Or(c.Log, os.DevNull), how, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("sh", append([]string{"-c", announced, "sh"}, c.Args...)...)
	cmd.Env, cmd.Dir, cmd.Stderr, cmd.ExtraFiles = os.Environ(), c.Dir, log, []*os.File{r.pipe}
	if c.Clean {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	}
	cmd.Env = append(cmd.Env, c.Env...)
	p = &Process{Log: c.Log, Began: time.Now(), cmd: cmd, ready: make(chan struct{}), ended: make(chan struct{})}
	if c.Mixed {
		cmd.Stdout = log
	} else if p.stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r.started = append(r.started, p)
	go func() {
		defer close(p.ended)
		p.wait()
		fmt.Fprintf(r.pipe, "-%d\n", p.PID())
	}()
	return p, nil
}
