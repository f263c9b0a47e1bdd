package node

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/parleyrun/parley/internal/cli/clitest"
)

// screen is a command at a terminal of its own.
type screen struct {
	t    *testing.T
	tty  *os.File
	done chan error

	mu      sync.Mutex
	changed *sync.Cond
	shown   bytes.Buffer
	late    bool
}

// atTerminal starts a command at a terminal of some columns.
func atTerminal(t *testing.T, columns uint16, env []string, args ...string) *screen {
	t.Helper()
	cmd := program.Command(args...)
	cmd.Env = append(append(cmd.Env, "TERM=xterm", "NO_COLOR="), env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, tty: tty, done: make(chan error, 1)}
	s.changed = sync.NewCond(&s.mu)
	late := time.AfterFunc(clitest.Timeout, func() {
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

func (s *screen) types(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until a text is on the screen, behind what was seen before, and returns what
// was shown until then.
func (s *screen) shows(text string) (before string) {
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

// ends waits for the end of the command.
func (s *screen) ends() {
	s.t.Helper()
	if err := <-s.done; err != nil {
		s.t.Errorf("it ended with %v", err)
	}
}

// TestChatAtATerminal holds a conversation with a server: edits a line, pastes several, aborts
// an answer, leaves, and goes on with it.
func TestChatAtATerminal(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	s := atTerminal(t, 80, nil, "chat", n.Base+"/ada")
	s.shows("> ")
	s.types("hallo\x7f\x7f\x7f\x7fello\r") // the end is written anew
	s.shows("hello (1 word)")
	s.shows("> ")
	s.types("\x1b[A\x1b[A\r") // what was said last, from the history
	s.shows("hello (1 word)")
	s.shows("> ")
	s.types("say: \x1b[200~one\r\ntwo\nthree\x1b[201~ and\x1b\rfour\r")
	s.shows("[paste 1, 3 lines] and␤four")
	s.shows("say: one\r\ntwo\r\nthree and\r\nfour (6 words)")
	s.shows("> ")
	s.types("think\r")
	s.shows("\x1b[2m")
	s.shows("\x1b[0m")
	s.shows("> ")
	s.types("time\r")
	s.shows("tool time {} → ")
	s.shows("> ")
	s.types("long 10000\r")
	s.shows("1 2 3 ")
	s.types("\x03")
	s.shows("aborting; Ctrl-C again leaves")
	s.shows("[aborted: The submission was aborted.]")
	s.shows("> ")
	s.types("\x04")
	s.ends()

	s = atTerminal(t, 40, []string{"NO_COLOR=1"}, "chat", n.Base+"/ada")
	s.shows("user: hello")
	s.shows("user: long 10000")
	s.shows("> ")
	s.types("think\r")
	if dimmed := s.shows("thinking: "); strings.Contains(dimmed, "\x1b[2m") {
		t.Errorf("with NO_COLOR it shows %q", dimmed)
	}
	s.shows("> ")
	s.types("long 10000\r")
	s.shows("1 2 3 ")
	s.types("\x03")
	s.shows("aborting")
	s.types("\x03")
	if shown := s.shows("\x1b[?2004l"); !strings.Contains(shown, "aborted") && !strings.Contains(shown, "the server goes on with the message") {
		t.Errorf("leaving shows %q", shown)
	}
}

// TestChatInThisProcess holds one with the agent of a file, over two runs.
func TestChatInThisProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Write(t, "agent.yaml", "model: demo/parrot\n")
	for _, want := range []string{"", "user: hello"} {
		s := atTerminal(t, 80, nil, "chat", "agent.yaml", "--data", "kept", "--id", "c")
		s.shows("agent, model demo/parrot; this is conversation c")
		if shown := s.shows("> "); !strings.Contains(shown, want) {
			t.Errorf("begins with %q, want %q", shown, want)
		}
		s.types("hello\r")
		s.shows("hello (1 word)")
		s.shows("> ")
		s.types("\x03")
		s.ends()
	}
}

// TestChatWithoutATerminal takes lines, and says in the end how the last one ended.
func TestChatWithoutATerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Write(t, "agent.yaml", "model: demo/parrot\n")
	cmd := program.Command("chat", "agent.yaml")
	cmd.Stdin = strings.NewReader("hello\n\nlong 3")
	out, err := cmd.CombinedOutput()
	if want := "You said: hello (1 word)\n1 2 3\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
	for args, want := range map[string]string{
		"":                                   "chat takes one conversation URL",
		"none.yaml":                          "none.yaml",
		"http://127.0.0.1:1/agents/x/y":      "there is no server at http://127.0.0.1:1",
		"http://127.0.0.1:1/x --id y":        "a URL names the conversation",
		"ftp://127.0.0.1/x":                  "is not a conversation URL",
		"http://127.0.0.1:1/x --token-env X": "--token-env X: the variable is not set",
	} {
		if code, out, errOut := program.Output(t, append([]string{"chat"}, strings.Fields(args)...)...); code != 1 || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", args, code, out, errOut, want)
		}
	}
}
