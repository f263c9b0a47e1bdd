package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/cli/clitest"
)

// parrotFile writes the file of an agent that needs no vendor.
func parrotFile(t *testing.T) string {
	t.Helper()
	return clitest.Write(t, filepath.Join(t.TempDir(), "parrot.yaml"), "model: demo/parrot\ninstructions: You are terse.\n")
}

// covers: upgrade/21
func TestRun(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	file := parrotFile(t)
	code, out, errOut := program.Output(t, "run", file, "-m", "hello there")
	if code != 0 || !strings.HasPrefix(out, "assistant: ") || !strings.Contains(out, "hello there") || !strings.HasSuffix(out, "[completed]\n") || errOut != "" {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
	code, out, errOut = program.Output(t, "run", file, "--id", "a/b c", "--json", "-m", "long 3")
	got := clitest.Into[runResult](t, out)
	if code != 0 || got.ID != "a/b c" || got.Agent != "parrot" || got.Outcome != conversation.OutcomeCompleted || errOut != "" ||
		strings.Join(strings.Fields(got.Text), " ") != "1 2 3" || !strings.HasPrefix(string(got.UID), "inst_") || !strings.HasPrefix(string(got.SubmissionID), "sub_") {
		t.Errorf("exit %d, %+v, %q", code, got, errOut)
	}
	if n := strings.Count(out, "\n"); n != 1 {
		t.Errorf("%d lines of JSON", n)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRunReadsStandardInput(t *testing.T) {
	cmd := program.Command("run", parrotFile(t), "--json", "-m", "-")
	cmd.Stdin = strings.NewReader("long 2\r\n\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := clitest.Into[runResult](t, string(out)); strings.Join(strings.Fields(got.Text), " ") != "1 2" {
		t.Errorf("%+v", got)
	}
}

func TestRunContinuesConversation(t *testing.T) {
	file, data := parrotFile(t), filepath.Join(t.TempDir(), "data")
	code, out, errOut := program.Output(t, "run", file, "--data", data, "--json", "-m", "one")
	first := clitest.Into[runResult](t, out)
	if code != 0 || !strings.Contains(errOut, "--data "+data+" --id "+first.ID) {
		t.Errorf("exit %d, %+v, %q", code, first, errOut)
	}
	code, out, errOut = program.Output(t, "run", file, "--data", data, "--id", first.ID, "--json", "-m", "two")
	second := clitest.Into[runResult](t, out)
	if code != 0 || second.UID != first.UID || second.SubmissionID == first.SubmissionID || errOut != "" {
		t.Errorf("exit %d, %+v after %+v, %q", code, second, first, errOut)
	}
	code, out, _ = program.Output(t, "run", file, "--data", data, "--json", "-m", "two")
	if other := clitest.Into[runResult](t, out); code != 0 || other.UID == first.UID || other.ID == first.ID {
		t.Errorf("exit %d, %+v: want another conversation than %+v", code, other, first)
	}
}

// An interrupted reply is continued by the next run.
// covers: providers/80
func TestRunInterrupted(t *testing.T) {
	var calls atomic.Int32
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		if calls.Add(1) == 1 {
			io.WriteString(w, `data: {"choices":[{"delta":{"content":"one two three"}}]}`+"\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done() // until it is interrupted
			return
		}
		io.WriteString(w, `data: {"choices":[{"delta":{"content":"and the end"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer vendor.Close()
	dir := t.TempDir()
	file, data := clitest.Write(t, filepath.Join(dir, "a.yaml"), `model: mine/m
providers:
  mine: {api: openai-completions, baseUrl: "`+vendor.URL+`"}
`), filepath.Join(dir, "data")
	cmd := program.Command("run", file, "--data", data, "--id", "x", "-m", "hello")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	words := bufio.NewScanner(stdout)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if words.Text() == "two" {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted || !strings.Contains(errOut.String(), "resumes it") {
		t.Fatalf("%v, %q; want exit %d", err, errOut.String(), cli.ExitInterrupted)
	}
	code, out, _ := program.Output(t, "run", file, "--data", data, "--id", "x", "-m", "hello again")
	const reply = "assistant: and the end\n[completed]\n"
	if code != 0 || out != reply+reply || calls.Load() != 3 {
		t.Errorf("exit %d, %q, %d calls; want the rest of the first reply and the second", code, out, calls.Load())
	}
}

func TestRunFails(t *testing.T) {
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"vendor secret words"}}`, http.StatusUnauthorized)
	}))
	defer vendor.Close()
	t.Setenv("TEST_PARLEY_KEY", "k")
	file := clitest.Write(t, filepath.Join(t.TempDir(), "a.yaml"), `name: reviewer
model: mine/m
providers:
  mine: {api: openai-completions, baseUrl: "`+vendor.URL+`", apiKeyEnv: TEST_PARLEY_KEY}
`)
	code, out, _ := program.Output(t, "run", file, "-m", "hello")
	if code != cli.ExitFailed || !strings.Contains(out, "[failed:") || strings.Contains(out, "vendor secret words") {
		t.Errorf("exit %d, %q", code, out)
	}
	code, out, _ = program.Output(t, "run", file, "--json", "-m", "hello")
	got := clitest.Into[runResult](t, out)
	if code != cli.ExitFailed || got.Agent != "reviewer" || got.Outcome != conversation.OutcomeFailed || got.Error == nil || got.Error.Message == "" {
		t.Errorf("exit %d, %+v", code, got)
	}
}

// The error for a mistyped agent lists the agents of the program, but none of parley.yaml, which run
// does not read.
func TestRunNamesTheAgentsOfTheProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.Write(t, "parley.yaml", "agents: {other: {model: demo/parrot}}\n")
	own := clitest.New(Commands)
	own.Own.Agents = []*agent.Agent{{Name: "desk", Model: "demo/parrot"}, {Name: "archive", Model: "demo/parrot"}}
	code, _, bad := own.Output(t, "run", "desc", "-m", "hello")
	if want := "parley: desc is neither an agent of the program nor a file; its agents are desk, archive\n"; code != 1 || bad != want {
		t.Errorf("exit %d, %q, want %q", code, bad, want)
	}
	if code, out, bad := own.Output(t, "run", "desk", "-m", "hello"); code != 0 || !strings.HasSuffix(out, "[completed]\n") {
		t.Errorf("exit %d, %q, %q", code, out, bad)
	}
	if _, _, bad := program.Output(t, "run", "desc", "-m", "hello"); !strings.Contains(bad, "read desc: file does not exist") {
		t.Errorf("a program without agents prints %q", bad)
	}
}

func TestExitCodeOfOutcome(t *testing.T) {
	for outcome, want := range map[conversation.Outcome]int{
		conversation.OutcomeCompleted: 0, conversation.OutcomeFailed: 2, conversation.OutcomeAborted: 3,
	} {
		got, exit := 0, &cli.ExitError{}
		if errors.As(cli.ExitOf(outcome), &exit) {
			got = exit.Code
		}
		if got != want {
			t.Errorf("%s is exit %d, want %d", outcome, got, want)
		}
	}
}

func TestResultOfAReply(t *testing.T) {
	one, two, thought := "one", "two", "hm"
	text := func(s *string) conversation.Part { return conversation.Part{Type: conversation.PartTypeText, Text: s} }
	got := resultOf(conversation.Address{Agent: "a", ID: "x"}, conversation.Receipt{SubmissionID: "sub_2", UID: "inst_1"}, conversation.Snapshot{
		Messages: []conversation.Message{
			{Role: conversation.RoleUser, SubmissionID: "sub_2", Parts: []conversation.Part{text(&thought)}},
			{Role: conversation.RoleAssistant, SubmissionID: "sub_1", Parts: []conversation.Part{text(&thought)}},
			{Role: conversation.RoleAssistant, SubmissionID: "sub_2", Metadata: json.RawMessage(`{"cost":1}`), Parts: []conversation.Part{
				{Type: conversation.PartTypeReasoning, Text: &thought}, text(&one),
				{Type: "data-card", Data: json.RawMessage(`{"n":1}`)}, {Type: "data-card", Data: json.RawMessage(`{"n":2}`)}, text(&two),
			}},
		},
		Settlements: []conversation.Settlement{
			{SubmissionID: "sub_1", Outcome: conversation.OutcomeFailed}, {SubmissionID: "sub_2", Outcome: conversation.OutcomeCompleted},
		},
	})
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"x","agent":"a","submissionId":"sub_2","uid":"inst_1","outcome":"completed","text":"one\n\ntwo",` +
		`"data":[{"name":"card","data":{"n":1}},{"name":"card","data":{"n":2}}],"metadata":{"cost":1}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}
