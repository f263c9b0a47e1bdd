package talk

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
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
		if got, err := conversationURL(given); err != nil || got.String() != want {
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
	if code != cli.ExitInterrupted || !strings.Contains(errOut.String(), "send it again with --key k1") {
		t.Errorf("exit %d, %q; want exit %d", code, errOut.String(), cli.ExitInterrupted)
	}
}

func TestSend(t *testing.T) {
	n := program.StartDev(t, t.TempDir())
	code, out, errOut := program.Output(t, "send", n.Base+"/a%2Fb", "help")
	if code != 0 || !strings.Contains(out, "assistant: I am a demo model") || !strings.HasSuffix(out, "[completed]\n") {
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

func TestTailSaysThatNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // the port is free: nobody answers
	ctx, cancel := context.WithCancel(t.Context())
	said := clitest.WriterFunc(func(p []byte) (int, error) {
		if !strings.Contains(string(p), "is the server running?") {
			t.Errorf("said %q", p)
		}
		cancel()
		return len(p), nil
	})
	if code := program.Run(ctx, []string{"tail", "http://" + l.Addr().String() + "/x"}, io.Discard, said); code != 0 {
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

// untilWritten ends what writes to it.
type untilWritten struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (w *untilWritten) Write(p []byte) (int, error) {
	defer w.cancel()
	return w.Buffer.Write(p)
}
