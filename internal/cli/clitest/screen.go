package clitest

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// Screen is a command at a terminal of its own.
type Screen struct {
	t    *testing.T
	tty  *os.File
	done chan error

	mu      sync.Mutex
	changed *sync.Cond
	shown   bytes.Buffer
	late    bool
}

// AtTerminal starts a command at a terminal of some columns, with more in its environment.
func (p *Program) AtTerminal(t *testing.T, columns uint16, env []string, args ...string) *Screen {
	t.Helper()
	cmd := p.Command(args...)
	cmd.Env = append(append(cmd.Env, "TERM=xterm", "NO_COLOR="), env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	s := &Screen{t: t, tty: tty, done: make(chan error, 1)}
	s.changed = sync.NewCond(&s.mu)
	late := time.AfterFunc(Timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late = true
		s.changed.Broadcast()
		_ = cmd.Process.Kill()
	})
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.changed.Broadcast()
			s.mu.Unlock()
			if err != nil {
				return // the process has ended
			}
		}
	}()
	go func() { s.done <- cmd.Wait() }()
	t.Cleanup(func() {
		late.Stop()
		_ = cmd.Process.Kill()
		_ = tty.Close()
		<-read
	})
	return s
}

// Types presses keys.
func (s *Screen) Types(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// Shows waits until a text is on the screen, behind what was seen before, and returns what
// was shown until then.
func (s *Screen) Shows(text string) (before string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if before, _, ok := strings.Cut(s.shown.String(), text); ok {
			s.shown.Next(len(before) + len(text))
			return before
		}
		if s.late {
			s.t.Fatalf("in vain waited for %q; shown is\n%q", text, s.shown.String())
		}
		s.changed.Wait()
	}
}

// Ends waits for the end of the command, which is to be a success.
func (s *Screen) Ends() {
	s.t.Helper()
	if err := <-s.done; err != nil {
		s.t.Errorf("it ended with %v", err)
	}
}
