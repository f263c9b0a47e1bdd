// Package clitest runs commands for the tests of the command packages, and calls the nodes that they
// start.
//
// A [Program] runs in the process of a test or as a process of its own. The process is the test
// binary, started again. So no other build is needed, and the test cache sees the code that a test
// ran. A test package has one Program, and its TestMain calls [Program.Main].
package clitest

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/waiting"
)

// asProgram is the variable that makes the test binary run the program.
const asProgram = "PARLEY_TEST_AS_PROGRAM"

// Program is the program with some command sets.
type Program struct {
	sets []cli.CommandSet
	// Own holds the extensions of the program.
	Own cli.Program
	// File is the binary to start, by default the test binary.
	File string
	env  []string
}

// New returns the program with the given command sets.
func New(sets ...cli.CommandSet) *Program {
	return &Program{sets: sets, File: os.Args[0]}
}

// Root returns the root command.
func (p *Program) Root() *cobra.Command {
	return p.Own.Root(p.sets...)
}

// Main runs the tests, or the program if asProgram is set.
func (p *Program) Main(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		p.Own.Main(p.sets...)
	}
	os.Exit(m.Run())
}

// Run runs the program in this process and returns its exit code.
func (p *Program) Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	return p.Own.Run(ctx, args, out, errOut, p.sets...)
}

// Output runs the program in this process and returns its output.
func (p *Program) Output(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx := within(t)
	var out, errOut bytes.Buffer
	code = p.Run(ctx, args, &out, &errOut)
	if ctx.Err() != nil {
		t.Fatalf("%v did not end: %s%s", args, out.String(), errOut.String())
	}
	return code, out.String(), errOut.String()
}

// within returns a context that expires after [Timeout].
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// Serving runs a command in this process until its banner is complete, and returns its output.
func (p *Program) Serving(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var out bytes.Buffer
	var errOut waiting.Log
	seen := WriterFunc(func(p []byte) (int, error) {
		out.Write(p)
		if bytes.Contains(p, []byte("Press Ctrl-C to stop.")) {
			cancel()
		}
		return len(p), nil
	})
	if code := p.Run(ctx, args, seen, &errOut); code != 0 {
		t.Errorf("%v: exit %d, %s", args, code, errOut.String())
	}
	return out.String(), errOut.String()
}

// With returns the program with more environment variables for its processes.
func (p *Program) With(env ...string) *Program {
	more := *p
	more.env = slices.Concat(p.env, env)
	return &more
}

// Command returns the program as a process that is not started.
func (p *Program) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.File, args...)
	cmd.Env = slices.Concat(os.Environ(), p.env, []string{asProgram + "=1"})
	return cmd
}

// StartDev starts "parley dev" on a data folder and waits until it serves.
func (p *Program) StartDev(t *testing.T, data string, args ...string) *Node {
	t.Helper()
	return p.Start(t, append([]string{"dev", "--quiet", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
}

// Start starts a command that prints a URL first, and waits for the URL.
func (p *Program) Start(t *testing.T, args ...string) *Node {
	t.Helper()
	cmd, out := p.Command(args...), &waiting.Log{}
	cmd.Stdout = out
	n := Run(t, cmd)
	waiting.Until(t, "the URL", func() (ok bool) {
		ended := n.ended()
		n.Base, _, ok = strings.Cut(out.String(), "\n")
		return ok || ended
	})
	if n.Base == "" {
		t.Fatalf("it prints no URL\n%s", n.Logs)
	}
	return n
}

// Certificates runs "parley cluster certs", which the program must have.
func (p *Program) Certificates(t *testing.T, dir string, args ...string) config.TLS {
	t.Helper()
	code, out, errOut := p.Output(t, append([]string{"cluster", "certs", dir}, args...)...)
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d, %s", code, errOut)
	}
	_, paste, _ := strings.Cut(out, "\ncluster:\n")
	src := "bucket: {endpoint: s3.example.com, name: words}\nagents: {echo: {model: demo/parrot}}\ncluster:\n  listen: 10.0.0.5:7946\n" + paste
	conf, err := config.Parse("p.yaml", []byte(src), (&cli.Program{}).ConfigOptions())
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	return *conf.Cluster.TLS
}

// WriterFunc is a function that implements io.Writer.
type WriterFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f WriterFunc) Write(p []byte) (int, error) { return f(p) }
