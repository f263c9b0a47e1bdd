package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parleyrun/parley/internal/proc"
)

const (
	// startTimeout bounds how long a process may take to begin, endTimeout to end in
	// order.
	startTimeout, endTimeout = 30 * time.Second, time.Minute
	// maxTail bounds what is told of a process's log, in bytes.
	maxTail = 4 << 10
)

// Commands of the program that a run belongs to, which are its children.
const (
	// ModelCommand serves the model of a run until SIGTERM. It prints its URL first.
	ModelCommand = "model"
	// BucketCommand serves the folder behind --dir as a bucket until SIGTERM. It prints
	// its URL, which ends in the bucket's name, first.
	BucketCommand = "bucket"
)

// child is a process of a run. Its owner ends it and waits.
type child struct {
	*proc.Process
	url   string
	admin string // host:port of its admin listener, "" if it has none.
}

// start starts a process and waits until it prints its URL. What a name stands for is
// told when that fails, and names the file of its log unless the command does.
func (r *runner) start(ctx context.Context, name string, c proc.Command) (*child, error) {
	if c.Log == "" {
		c.Log = filepath.Join(r.dir, fmt.Sprintf("%s-%d.log", name, r.children.Add(1)))
	}
	p, err := r.reaper.Start(c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the process says nothing"))
	defer cancel()
	url, err := p.Await(ctx)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("start %s: %w: %s", name, err, tail(p))
	}
	return &child{Process: p, url: url}, nil
}

// tail is the end of what a process has printed.
func tail(p *proc.Process) string { return strings.TrimSpace(p.Tail(maxTail)) }

// end ends the child in order. One that does not end is killed.
func (c *child) end() error {
	if err := c.Stop(endTimeout); err != nil {
		return fmt.Errorf("the process: %w: %s", err, tail(c.Process))
	}
	return nil
}

func (c *child) usage() (usage, error) { return usageOf(c.PID()) }

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

// VersionOf returns what a parley program says it is.
func VersionOf(ctx context.Context, program string) (string, error) {
	out, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	version := strings.TrimSpace(string(out))
	if !strings.HasPrefix(version, "parley ") {
		return "", fmt.Errorf("%s is no parley program: asked for its version, it says %.100q", program, version)
	}
	return version, nil
}
