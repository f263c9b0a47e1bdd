package noderun_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/proc"
	"github.com/parleyrun/parley/internal/waiting"
)

// scripted returns a node whose program is a script. It removes the file order and ends in the way
// named in it, or goes on without that file.
func scripted(t *testing.T, f *noderun.Fleet, o noderun.NodeOptions) (n *noderun.Node, order string) {
	t.Helper()
	o.Dir = t.TempDir()
	o.Program, order = filepath.Join(o.Dir, "program"), filepath.Join(o.Dir, "order")
	script := "#!/bin/sh\nsleep ${BEGINS:-0}\ntrap 'exit 0' TERM\necho ready\nuntil [ -s " + order + " ]; do sleep 0.01; done\nread how <" + order + "\nrm " + order + "\necho word >&2\nexit $how\n"
	if err := os.WriteFile(o.Program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return f.Add(o), order
}

// Nodes end in every way; the cases state which are restarted, and which ends are flaws.
func TestFleet(t *testing.T) {
	for name, c := range map[string]struct {
		options noderun.NodeOptions
		code    string // its own exit code
		again   bool
		flaws   []string
	}{
		"by itself":               {noderun.NodeOptions{}, "0", false, []string{"unexpected end"}},
		"replaced":                {noderun.NodeOptions{}, "75", true, nil},
		"replaced, but must stay": {noderun.NodeOptions{Stays: true}, "75", false, []string{"unexpected end"}},
		"excused":                 {noderun.NodeOptions{Excused: func(p *proc.Process) bool { return p.ExitCode() == 3 }}, "3", true, nil},
		"not excused":             {noderun.NodeOptions{Excused: func(p *proc.Process) bool { return p.ExitCode() == 3 }}, "4", false, []string{"unexpected end"}},
		"with a secret":           {noderun.NodeOptions{Secret: "word"}, "75", true, []string{"output contains word"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := noderun.NewFleet(t, noderun.NewClient(liveness), liveness)
			n, order := scripted(t, f, c.options)
			if !f.Start(t.Context()) {
				t.Fatal(f.All())
			}
			first := n.Running()
			if err := os.WriteFile(order, []byte(c.code+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			<-first.Ended()
			for c.again && n.Starts() == 1 {
				if noderun.Pause(t.Context(), time.Millisecond) != nil {
					t.Fatal("node was not restarted")
				}
			}
			f.Close()
			flaws := f.All()
			if len(flaws) != len(c.flaws) || len(flaws) > 0 && !strings.Contains(flaws[0], c.flaws[0]) {
				t.Errorf("got flaws %q, want %q", flaws, c.flaws)
			}
			if !c.again && n.Starts() != 1 {
				t.Errorf("node was started %d times", n.Starts())
			}
		})
	}
}

// Requested ends are no flaws, and an ended node is not restarted.
func TestFleetEnds(t *testing.T) {
	f := noderun.NewFleet(t, noderun.NewClient(liveness), liveness)
	n, _ := scripted(t, f, noderun.NodeOptions{})
	for _, end := range []func(){n.Leave, n.Kill, func() { n.Want(false); n.Signal(syscall.SIGKILL) }} {
		if !f.Start(t.Context()) {
			t.Fatal(f.All())
		}
		p := n.Running()
		end()
		<-p.Ended()
	}
	if f.Close(); f.Any() || n.Starts() != 3 || n.Running() != nil || f.Replacements() != 0 {
		t.Errorf("got flaws %q after %d starts", f.All(), n.Starts())
	}
}

// A node is ended during the start of its process, and before the process handles signals.
func TestFleetEndsStartingNode(t *testing.T) {
	f, begun := noderun.NewFleet(t, noderun.NewClient(liveness), liveness), make(chan *proc.Process, 1)
	n, _ := scripted(t, f, noderun.NodeOptions{
		Env: []string{"BEGINS=0.2"}, Watch: func(_ context.Context, p *proc.Process) { begun <- p },
	})
	// A process is started once its log is open, and a pipe opens once it has a reader.
	log, pipe := filepath.Join(n.Dir, "node-1.1.log"), filepath.Join(n.Dir, "pipe")
	if err := syscall.Mkfifo(log, 0o600); err != nil {
		t.Fatal(err)
	}
	n.Want(true)
	waiting.Until(t, "the start of a process", func() bool { return n.Starts() == 1 })
	n.Kill()
	if err := errors.Join(os.Rename(log, pipe), os.WriteFile(log, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	waiting.For(t, waiting.For(t, begun, "a process").Ended(), "its end")
	n.Want(true)
	p := waiting.For(t, begun, "another process")
	n.Leave()
	waiting.For(t, p.Ended(), "its end")
	if f.Close(); f.Any() || p.ExitCode() != 0 || n.Starts() != 2 {
		t.Errorf("got flaws %q after %d starts, last exit code %d", f.All(), n.Starts(), p.ExitCode())
	}
}
