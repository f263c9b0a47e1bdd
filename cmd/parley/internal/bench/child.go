package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// childTimeout bounds how long a child may take to begin, and to end.
const childTimeout = 30 * time.Second

// Requests to a child, a line each on its standard input. It also ends when that
// input does, so that no child outlives the generator, whatever ends that.
const (
	// FreeRequest asks it to return memory to the system; it prints FreedAnswer.
	FreeRequest = "free"
	// FreedAnswer is a line of its own.
	FreedAnswer = "freed"
	// ProfileRequest, a space and a path without extension ask it to profile itself:
	// CPU into path.cpu.pprof, allocations since it began into path.allocs.pprof,
	// and what they were before into path.before.pprof. It prints ProfilingAnswer.
	ProfileRequest = "profile"
	// ProfilingAnswer is a line of its own.
	ProfilingAnswer = "profiling"
	// ProfiledRequest asks it to write the profiles; it prints ProfiledAnswer.
	ProfiledRequest = "stop profile"
	// ProfiledAnswer is a line of its own.
	ProfiledAnswer = "profiled"
)

// child is a process of this program. Its owner ends it and waits.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // What it prints; closed at the end of that.
	url   string
	log   *tail
	ended chan struct{} // Closed once it was waited for.
}

// manner is how a child is started beside its arguments.
type manner struct {
	env []string // Beside that of this process.
	log string   // File that its log is added to; "" keeps the end of it alone.
}

// startChild starts a process and waits until it prints its URL.
func startChild(ctx context.Context, program string, args ...string) (*child, error) {
	return manner{}.start(ctx, program, args...)
}

// start is startChild in a manner.
func (m manner) start(ctx context.Context, program string, args ...string) (*child, error) {
	c := &child{cmd: exec.Command(program, args...), lines: make(chan string, 16), ended: make(chan struct{}), log: &tail{}}
	c.cmd.Stderr = c.log
	c.cmd.Env = append(os.Environ(), m.env...)
	file := io.NopCloser(nil)
	if m.log != "" {
		f, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		c.cmd.Stderr, file = io.MultiWriter(c.log, f), f
	}
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go func() {
		defer close(c.ended)
		out := bufio.NewScanner(stdout)
		for out.Scan() {
			select {
			case c.lines <- out.Text():
			default: // Nobody asked for so many lines.
			}
		}
		close(c.lines)
		_ = c.cmd.Wait() // How it ended is told by what it did not do.
		_ = file.Close() // A log that is cut is a log.
	}()
	if c.url, err = c.line(ctx); err != nil {
		c.kill()
		return nil, fmt.Errorf("start %s: %w: %s", args[0], err, c.log)
	}
	return c, nil
}

// line waits for the next line the child prints.
func (c *child) line(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, childTimeout, errors.New("the process says nothing"))
	defer cancel()
	select {
	case line, ok := <-c.lines:
		if !ok {
			return "", errors.New("the process has ended")
		}
		return strings.TrimSpace(line), nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ask sends the child a request and waits for its answer.
func (c *child) ask(ctx context.Context, request, answer string) error {
	if _, err := io.WriteString(c.stdin, request+"\n"); err != nil {
		return fmt.Errorf("ask for %q: %w", request, err)
	}
	line, err := c.line(ctx)
	if err == nil && line != answer {
		err = fmt.Errorf("the process said %q", line)
	}
	if err != nil {
		return fmt.Errorf("ask for %q: %w", request, err)
	}
	return nil
}

// stop ends the child in order. One that does not end is killed.
func (c *child) stop() error {
	_ = c.stdin.Close() // It is closed already if the child has ended.
	select {
	case <-c.ended:
	case <-time.After(childTimeout):
		c.kill()
		return fmt.Errorf("the process did not end within %v: %s", childTimeout, c.log)
	}
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("the process ended with %v: %s", c.cmd.ProcessState, c.log)
	}
	return nil
}

// kill ends the child as a power cut would.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(os.Kill) // It may have ended.
	<-c.ended
}

func (c *child) usage() (usage, error) { return usageOf(c.cmd.Process.Pid) }

// known is usage; nil if there is no child or it cannot be told.
func (c *child) known() *usage {
	if c == nil {
		return nil
	}
	u, err := c.usage()
	if err != nil {
		return nil
	}
	return &u
}
