package clitest

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/parleyrun/parley/internal/waiting"
)

// Screen is a command that runs at a pseudo-terminal.
type Screen struct {
	t     *testing.T
	tty   *os.File
	done  chan error
	shown waiting.Log
	seen  int // number of bytes that Shows has consumed
}

// AtTerminal starts a command at a pseudo-terminal of the given width.
func (p *Program) AtTerminal(t *testing.T, columns uint16, args ...string) *Screen {
	t.Helper()
	cmd := p.With("TERM=xterm", "NO_COLOR=").With(p.env...).Command(args...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	s := &Screen{t: t, tty: tty, done: make(chan error, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&s.shown, tty) // until the process has ended
	}()
	go func() { s.done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = tty.Close()
		<-read
		if t.Failed() {
			t.Logf("shown is\n%q", s.shown.String())
		}
	})
	return s
}

// Types sends keys.
func (s *Screen) Types(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// Expect waits until a text appears after the output seen so far, and returns the output before it.
func (s *Screen) Expect(text string) (before string) {
	s.t.Helper()
	waiting.Until(s.t, text+" on the screen", func() (ok bool) {
		before, _, ok = strings.Cut(s.shown.String()[s.seen:], text)
		return ok
	})
	s.seen += len(before) + len(text)
	return before
}

// Ends waits for the command to end with success.
func (s *Screen) Ends() {
	s.t.Helper()
	if err := waiting.For(s.t, s.done, "the end of the command"); err != nil {
		s.t.Errorf("it ended with %v", err)
	}
}
