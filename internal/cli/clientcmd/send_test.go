package clientcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/cli/converse"
	"github.com/parleyrun/parley/internal/noderun"
	"github.com/parleyrun/parley/internal/waiting"
)

func TestConversationURLKeepsEscapes(t *testing.T) {
	for given, want := range map[string]string{
		"http://h/agents/echo/a%2Fb":              "http://h/agents/echo/a%2Fb",
		"http://h/agents/echo/a%2Fb c":            "http://h/agents/echo/a%2Fb%20c",
		"http://h/agents/echo/a%2Fb 会":            "http://h/agents/echo/a%2Fb%20%E4%BC%9A",
		`http://h/agents/echo/a%2F"<>\^` + "`{|}": "http://h/agents/echo/a%2F%22%3C%3E%5C%5E%60%7B%7C%7D",
		"http://h/agents/echo/%25x%2F?a=é#f":      "http://h/agents/echo/%25x%2F",
		"http://h/agents/echo/x?":                 "http://h/agents/echo/x",
		"https://[::1]:3000/echo/x":               "https://[::1]:3000/echo/x",
	} {
		if got, err := converse.ParseURL(given); err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v; want %s", given, got, err, want)
		}
	}
}

// TestSendIsInterrupted interrupts a reply: the line on the screen is ended, and
// the exit code is not that of a failure.
func TestSendIsInterrupted(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
	defer stop()
	var out, errOut bytes.Buffer
	seen := clitest.WriterFunc(func(p []byte) (int, error) {
		if out.Write(p); strings.Contains(out.String(), " 5") {
			stop()
		}
		return len(p), nil
	})
	code := program.Run(ctx, []string{"send", n.Base + "/x", "long 400"}, seen, &errOut)
	if code != cli.ExitInterrupted || !strings.Contains(errOut.String(), "parley tail "+n.Base+"/x") || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("exit %d, %q, %q; want exit %d", code, out.String(), errOut.String(), cli.ExitInterrupted)
	}
	code = program.Run(ctx, []string{"send", "--key", "k1", n.Base + "/x", "more"}, io.Discard, &errOut)
	if code != cli.ExitInterrupted || !strings.Contains(errOut.String(), "resend it with --key k1") {
		t.Errorf("exit %d, %q; want exit %d", code, errOut.String(), cli.ExitInterrupted)
	}
}

func TestSend(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	code, out, errOut := program.Output(t, "send", n.Base+"/a%2Fb", "help")
	if code != 0 || !strings.Contains(out, "assistant: I am a demo model") || !strings.HasSuffix(out, "[completed]\n") || !strings.HasPrefix(errOut, "parley: accepted as sub_") {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	code, out, _ = program.Output(t, "send", "--no-wait", "--key", "k", n.Base+"/a%2Fb", "hello")
	var first clitest.Receipt
	if err := json.Unmarshal([]byte(out), &first); code != 0 || err != nil || first.Deduplicated {
		t.Fatalf("exit %d, %v, %q", code, err, out)
	}
	if !strings.HasSuffix(first.StreamURL, "/a%2Fb") {
		t.Errorf("stream URL is %s, want the id as it was written", first.StreamURL)
	}
	code, out, _ = program.Output(t, "send", "--json", "--key", "k", n.Base+"/a%2Fb", "hello")
	last := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
	var c conversation.Chunk
	if err := json.Unmarshal([]byte(last), &c); code != 0 || err != nil || c.SubmissionID != first.SubmissionID {
		t.Errorf("exit %d, %v, last line %q; want the settlement of %s", code, err, last, first.SubmissionID)
	}
	code, _, errOut = program.Output(t, "send", "--key", "k", n.Base+"/a%2Fb", "other")
	if code != 1 || !strings.Contains(errOut, "submission_conflict") {
		t.Errorf("exit %d, %q; want a conflict", code, errOut)
	}
}

// Three concurrent sends each print the answer to their own message.
func TestSendShowsItsOwnAnswer(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	outs := make([]string, 3)
	var senders sync.WaitGroup
	for i := range outs {
		senders.Go(func() { _, outs[i], _ = program.Output(t, "send", n.Base+"/x", fmt.Sprintf("long 1%d", i)) })
	}
	senders.Wait()
	for i, out := range outs {
		if want := fmt.Sprintf(" 1%d\n[completed]\n", i); !strings.HasPrefix(out, "assistant: 1 2 3") || !strings.HasSuffix(out, want) || strings.Count(out, "assistant:") != 1 {
			t.Errorf("message %d prints %q, want one answer that ends in %q", i, out, want)
		}
	}
}

// A send behind a long answer reports the queue and prints only its own answer.
func TestSendReportsQueue(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	program.Output(t, "send", "--no-wait", n.Base+"/x", "long 10000")
	program.Output(t, "send", "--no-wait", n.Base+"/x", "long 10000")
	printed := make(chan struct{})
	var out bytes.Buffer
	errOut := clitest.WriterFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "queued behind 2 messages") {
			close(printed)
		}
		return len(p), nil
	})
	ended := make(chan int, 1)
	go func() { ended <- program.Run(t.Context(), []string{"send", n.Base + "/x", "help"}, &out, errOut) }()
	waiting.For(t, printed, "the notice")
	program.Output(t, "abort", n.Base+"/x")
	if code := <-ended; code != cli.ExitAborted || strings.Contains(out.String(), "assistant:") || !strings.Contains(out.String(), "[aborted]") {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

// TestSendTakesMore sends standard input with an image and with initial data.
func TestSendTakesMore(t *testing.T) {
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		http.Error(w, `{"error":{"type":"invalid_request","message":"No.","details":"Not."}}`, http.StatusBadRequest)
	}))
	defer server.Close()
	t.Chdir(t.TempDir())
	t.Setenv("PARLEY_DATA", "./elsewhere") // which is no agent's
	clitest.Write(t, "a.png", "\x89PNG\r\n\x1a\nrest")
	clitest.Write(t, "a.txt", "words")
	root := program.Root()
	root.SetArgs([]string{"send", "--attach", "a.png", "--data", `{"n":1}`, server.URL + "/x", "-"})
	root.SetIn(strings.NewReader("from a pipe\n\n"))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid_request") {
		t.Errorf("got %v", err)
	}
	body := <-got
	for _, want := range []string{`"body":"from a pipe"`, `"initialData":{"n":1}`, `"mimeType":"image/png","filename":"a.png","data":"iVBORw0KGgpyZXN0"`} {
		if !strings.Contains(body, want) {
			t.Errorf("sent %s, want %s", body, want)
		}
	}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"an empty message": {[]string{server.URL + "/x", ""}, "the message is empty; write it after the URL, or pipe it to -"},
		"no such file":     {[]string{"--attach", "none.png", server.URL + "/x", "m"}, "name an existing image"},
		"a folder":         {[]string{"--attach", ".", server.URL + "/x", "m"}, ". is a folder; name an image in it"},
		"a text":           {[]string{"--attach", "a.txt", server.URL + "/x", "m"}, "a.txt is text/plain; charset=utf-8, not an image"},
		"data is no JSON":  {[]string{"--data", "{", server.URL + "/x", "m"}, "it is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := program.Output(t, append([]string{"send"}, tt.args...)...)
			wantCode := 1
			if name == "data is no JSON" {
				wantCode = cli.ExitUsage
			}
			if code != wantCode || out != "" || !strings.Contains(errOut, tt.want) {
				t.Errorf("exit %d, %q, %q; want exit %d and %q", code, out, errOut, wantCode, tt.want)
			}
		})
	}
}

// Without a server the error reports at once that nothing was admitted. If an attempt may have been
// admitted, it names the key for a retry.
func TestSendWithoutServer(t *testing.T) {
	at := "http://" + noderun.Refusing(t)
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler()) // its certificate has no known authority
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	for _, args := range [][]string{{"send", at + "/x", "m"}, {"signal", at + "/x", "n", "1"}, {"send", untrusted.URL + "/x", "m"}} {
		code, out, errOut := program.Output(t, args...)
		if code != 1 || out != "" || !strings.Contains(errOut, "nothing was admitted: there is no server at "+strings.TrimSuffix(args[1], "/x")) || strings.Contains(errOut, "retrying") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errOut)
		}
	}
	l, err := net.Listen("tcp", noderun.Refusing(t)) // whose port nobody else gets
	if err != nil {
		t.Fatal(err)
	}
	at = "http://" + l.Addr().String()
	taken := make(chan struct{})
	go func() { // It takes one connection, and is gone.
		defer close(taken)
		if c, err := l.Accept(); err == nil {
			_, _ = c.Read(make([]byte, 1))
			l.Close()
			c.Close()
		}
	}()
	ctx, stop := context.WithTimeout(t.Context(), clitest.Timeout)
	defer stop()
	var errOut bytes.Buffer
	printed := clitest.WriterFunc(func(p []byte) (int, error) {
		if errOut.Write(p); strings.Contains(errOut.String(), "retrying") {
			stop()
		}
		return len(p), nil
	})
	code := program.Run(ctx, []string{"send", "--key", "k7", at + "/x", "m"}, io.Discard, printed)
	if <-taken; code != cli.ExitInterrupted || !strings.Contains(errOut.String(), "resend it with --key k7") {
		t.Errorf("exit %d, %q", code, errOut.String())
	}
}

func TestFailedModelIsExitCode(t *testing.T) {
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"vendor secret words"}}`, http.StatusUnauthorized)
	}))
	defer vendor.Close()
	t.Setenv("OPENAI_BASE_URL", vendor.URL)
	t.Setenv("OPENAI_API_KEY", "k")
	n := program.StartDev(t, t.TempDir(), "--model", "openai/m")
	code, out, _ := program.Output(t, "send", n.Base+"/x", "hello")
	if code != cli.ExitFailed || !strings.Contains(out, "[failed:") || strings.Contains(out, "vendor secret words") {
		t.Errorf("exit %d, %q; want %d and our own words", code, out, cli.ExitFailed)
	}
}

func TestTailReportsUnreachableServer(t *testing.T) {
	at := noderun.Refusing(t)
	ctx, cancel := context.WithCancel(t.Context())
	printed := clitest.WriterFunc(func(p []byte) (int, error) {
		if !strings.Contains(string(p), "is the server running?") {
			t.Errorf("got output %q", p)
		}
		cancel()
		return len(p), nil
	})
	if code := program.Run(ctx, []string{"tail", "http://" + at + "/x"}, io.Discard, printed); code != 0 {
		t.Errorf("exit %d", code)
	}
}

// TestTailNeutralizes follows a conversation whose model speaks to the terminal, in
// every kind of part.
func TestTailNeutralizes(t *testing.T) {
	const evil = "\x1b]0;x\x07\u009b2J\u202e"
	chunks, err := json.Marshal([]conversation.Chunk{{
		Type: conversation.ChunkReset, Snapshot: &conversation.Snapshot{Messages: []conversation.Message{{
			Role: "assistant", Parts: []conversation.Part{{Type: conversation.PartTypeText, Text: new("all " + evil)}},
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-served:
			<-r.Context().Done()
			return
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Stream-Next-Offset", "0000000000000000_0000000000000001")
		w.Header().Set("Stream-Up-To-Date", "true")
		_, _ = w.Write(chunks)
	}))
	defer server.Close()
	for _, args := range [][]string{{"tail", server.URL + "/a/c"}, {"tail", "--json", server.URL + "/a/c"}} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &untilWritten{cancel: cancel}
		program.Run(ctx, args, out, io.Discard)
		got := out.String()
		if !strings.Contains(got, `\u001b]0;x\u0007\u009b2J\u202e`) || strings.ContainsAny(got, evil[:1]+"\u009b\u202e") {
			t.Errorf("%q prints %q", args, got)
		}
	}
	close(served)
}

// untilWritten cancels a context after the first write.
type untilWritten struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (w *untilWritten) Write(p []byte) (int, error) {
	defer w.cancel()
	return w.Buffer.Write(p)
}

// Help is wrapped at the width of the terminal.
func TestHelpFitsTheTerminal(t *testing.T) {
	s := program.AtTerminal(t, 60, "send", "--help")
	s.Expect("send posts a message and follows the conversation until the\r\nmessage is settled. It prints only the answer to this")
	s.Expect("      --no-wait              print the receipt as JSON and\r\n                             do not wait for the reply")
	s.Ends()
}
