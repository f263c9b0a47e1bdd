package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
)

// The chat edits a line, pastes several, aborts an answer, leaves, and continues the conversation.
func TestChatAtATerminal(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	s := program.AtTerminal(t, 80, "chat", n.Base+"/ada")
	s.Expect("> ")
	s.Types("hallo\x7f\x7f\x7f\x7fello\r") // retypes the end of the line
	s.Expect("hello (1 word)")
	s.Expect("> ")
	s.Types("\x1b[A\x1b[A\r") // the last message, from the history
	s.Expect("hello (1 word)")
	s.Expect("> ")
	s.Types("say: \x1b[200~one\r\ntwo\nthree\x1b[201~ and\x1b\rfour\r")
	s.Expect("[paste 1, 3 lines] and␤four")
	s.Expect("say: one\r\ntwo\r\nthree and\r\nfour (6 words)")
	s.Expect("> ")
	s.Types("think\r")
	s.Expect("\x1b[2m")
	s.Expect("\x1b[0m")
	s.Expect("> ")
	s.Types("time\r")
	s.Expect("tool time {} → ")
	s.Expect("> ")
	s.Types("long 10000\r")
	s.Expect("1 2 3 ")
	s.Types("\x03")
	s.Expect("aborting; Ctrl-C again leaves")
	s.Expect("[The submission was aborted.]")
	if more := s.Expect("> "); strings.Contains(more, "[aborted]") {
		t.Errorf("the end is printed twice: %q", more)
	}
	s.Types("\x04")
	s.Ends()

	s = program.With("NO_COLOR=1").AtTerminal(t, 40, "chat", n.Base+"/ada")
	s.Expect("user: hello")
	s.Expect("user: long 10000")
	if before := s.Expect("> "); strings.Contains(before, "[completed]") || strings.Contains(before, "[aborted]") {
		t.Errorf("the printed history ends with %q", before)
	}
	s.Types("think\r")
	if dimmed := s.Expect("thinking: "); strings.Contains(dimmed, "\x1b[2m") {
		t.Errorf("with NO_COLOR it shows %q", dimmed)
	}
	s.Expect("> ")
	s.Types("long 10000\r")
	s.Expect("1 2 3 ")
	s.Types("\x03")
	s.Expect("aborting")
	s.Types("\x03\x04") // if the abort was faster, the first key finds a prompt and the second one leaves
	if shown := s.Expect("\x1b[?2004l"); !strings.Contains(shown, "aborted") && !strings.Contains(shown, "the message continues at the server") {
		t.Errorf("leaving shows %q", shown)
	}
}

// Ctrl-C ends the opening request and a post that get no response.
func TestChatInterruptsSilentServer(t *testing.T) {
	for silent, want := range map[string]string{http.MethodGet: "has not responded", http.MethodPost: "left; it is unknown whether the message was accepted"} {
		t.Run(silent, func(t *testing.T) {
			asked, over := make(chan struct{}, 10), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == silent {
					asked <- struct{}{}
					<-over
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"error":{"type":"stream_not_found","message":"There is none."}}`)
			}))
			defer server.Close()
			defer close(over)
			s := program.AtTerminal(t, 80, "chat", server.URL+"/x")
			if silent == http.MethodPost {
				s.Expect("> ")
				s.Types("hello\r")
			}
			select {
			case <-asked:
			case <-time.After(clitest.Timeout):
				t.Fatal("it asks for nothing")
			}
			s.Types("\x03")
			s.Expect(want)
		})
	}
}

func TestChatInThisProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Write(t, "agent.yaml", "model: demo/parrot\n")
	for _, want := range []string{"", "user: hello"} {
		s := program.AtTerminal(t, 80, "chat", "agent.yaml", "--data", "kept", "--id", "c")
		s.Expect("agent, model demo/parrot; this is conversation c")
		if shown := s.Expect("> "); !strings.Contains(shown, want) {
			t.Errorf("begins with %q, want %q", shown, want)
		}
		s.Types("hello\r")
		s.Expect("hello (1 word)")
		s.Expect("> ")
		s.Types("\x03")
		s.Ends()
	}
}

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
		"http://127.0.0.1:1/x --id y":        "a URL already names the conversation",
		"ftp://127.0.0.1/x":                  "is not a conversation URL",
		"http://127.0.0.1:1/x --token-env X": "--token-env X: the variable is not set",
	} {
		exit := 1
		if args == "" || args == "ftp://127.0.0.1/x" {
			exit = cli.ExitUsage
		}
		if code, out, errOut := program.Output(t, append([]string{"chat"}, strings.Fields(args)...)...); code != exit || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", args, code, out, errOut, want)
		}
	}
}
