package server

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli/clitest"
	"github.com/parleyrun/parley/internal/fakemodel"
)

// weather delegates a task, and makes its own model comment on the result.
const weather = `tool=task {"agent":"researcher","prompt":"say=\"It rains in Oslo.\""}`

// desk writes the keys of an agent with a broken model, a fallback, a subagent and settings for
// compaction. model serves its calls, and broken rejects all calls.
func desk(t *testing.T) (keys string, model *fakemodel.Model, broken *fakemodel.Model) {
	t.Helper()
	model, broken = fakemodel.New(nil), fakemodel.New(&fakemodel.Options{Key: "another"})
	good, bad := httptest.NewServer(model), httptest.NewServer(broken)
	t.Cleanup(good.Close)
	t.Cleanup(bad.Close)
	return fmt.Sprintf(`providers:
  broken: {api: anthropic-messages, baseUrl: %q}
  local: {api: openai-completions, baseUrl: %q, reasoning: true, contextWindow: 400}
`, bad.URL, good.URL+"/v1"), model, broken
}

const deskAgent = `
model: broken/large
fallbacks: [local/middle]
instructions: You delegate.
compaction: {reserveTokens: 200, keepRecentTokens: 1, model: local/summarizer, instructions: Keep every number.}
subagents:
  - name: researcher
    description: Looks things up.
    model: local/small
    thinkingLevel: low
    instructions: You search.
  - name: writer
    description: Writes it down.
`

// modelCall is the compared part of a model call.
type modelCall struct {
	Model, System, Prompt string
	Effort                string
	Tools                 []string
}

func callsOf(m *fakemodel.Model) []modelCall {
	var out []modelCall
	for _, r := range m.Requests() {
		out = append(out, modelCall{r.Model, r.System, r.Prompt, r.Effort, r.Tools})
	}
	return out
}

// checkDelegation checks the model calls for one message.
func checkDelegation(t *testing.T, model, broken *fakemodel.Model) {
	t.Helper()
	own := modelCall{"middle", "You delegate.", weather, "", []string{"task"}}
	want := []modelCall{own, {"small", "You search.", `say="It rains in Oslo."`, "low", []string{}}, own}
	if diff := cmp.Diff(want, callsOf(model)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if got := broken.Requests(); len(got) != 0 { // it rejects a request before recording it
		t.Errorf("the broken model took %v", got)
	}
}

// The agent's first model is broken, and its second one delegates a task to a subagent.
func TestRunDelegates(t *testing.T) {
	providers, model, broken := desk(t)
	file := clitest.Write(t, filepath.Join(t.TempDir(), "desk.yaml"), providers+deskAgent)
	code, out, errOut := program.Output(t, "run", file, "--json", "-m", weather)
	got := clitest.Into[runResult](t, out)
	if code != 0 || got.Outcome != conversation.OutcomeCompleted || !strings.Contains(got.Text, "The tool said:") || !strings.Contains(got.Text, "It rains in Oslo.") {
		t.Errorf("exit %d, %+v, %q", code, got, errOut)
	}
	checkDelegation(t, model, broken)
}

// Over HTTP, only the result of the subagent is visible, and the model that answered in place of
// another.
func TestServeDelegates(t *testing.T) {
	providers, model, broken := desk(t)
	dir := t.TempDir()
	file := clitest.Write(t, filepath.Join(dir, "parley.yaml"), clitest.DirBucket(dir)+"\nlisten: 127.0.0.1:0\n"+providers+
		"agents:\n  desk:\n    mounts: [/desk]"+strings.ReplaceAll(deskAgent, "\n", "\n    "))
	n := program.Start(t, "serve", "--quiet", "--config", file)
	at := n.URL(t, "c")
	rcpt := clitest.Admitted(t, at, "k1", weather)
	clitest.NewReader(t, rcpt.Offset).Until(at, rcpt.Offset, clitest.Settled(rcpt.SubmissionID))
	checkDelegation(t, model, broken)
	snap := clitest.History(t, at)
	reply, end := snap.Reply(rcpt.SubmissionID)
	if end == nil || end.Outcome != conversation.OutcomeCompleted || reply == nil {
		t.Fatalf("ended %+v with %+v", end, reply)
	}
	var parts []string
	for _, p := range reply.Parts {
		parts = append(parts, p.Type+" "+p.ToolName+" "+p.State)
	}
	if diff := cmp.Diff([]string{"dynamic-tool task output-available", "text  done"}, parts); diff != "" || len(snap.Messages) != 3 {
		t.Errorf("%d messages, parts of the reply (-want +got):\n%s", len(snap.Messages), diff)
	}
}

// The conversation continues until its window is nearly full.
func TestServeCompacts(t *testing.T) {
	providers, model, _ := desk(t)
	dir := t.TempDir()
	file := clitest.Write(t, filepath.Join(dir, "parley.yaml"), clitest.DirBucket(dir)+"\nlisten: 127.0.0.1:0\n"+providers+
		"agents:\n  desk:\n    mounts: [/desk]"+strings.ReplaceAll(deskAgent, "\n", "\n    "))
	n := program.Start(t, "serve", "--quiet", "--config", file)
	at := n.URL(t, "c")
	summarized := func() bool {
		for _, c := range callsOf(model) {
			if c.Model == "summarizer" {
				if !strings.Contains(c.System, "Keep every number.") || !strings.Contains(c.Prompt, "tokens=60") {
					t.Errorf("the summarizer was asked %+v", c)
				}
				return true
			}
		}
		return false
	}
	for i := range 4 { // the third message fills half of the window
		rcpt := clitest.Admitted(t, at, fmt.Sprint("k", i), fmt.Sprintf("tokens=60 note=%d", i))
		clitest.NewReader(t, rcpt.Offset).Until(at, rcpt.Offset, clitest.Settled(rcpt.SubmissionID))
		if got := clitest.Settlements(clitest.History(t, at), rcpt.SubmissionID); !cmp.Equal(got, []conversation.Outcome{conversation.OutcomeCompleted}) {
			t.Errorf("message %d: settlements are %v", i, got)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(clitest.Timeout); !summarized(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("got no summary call: %+v", callsOf(model))
		}
	}
}
