package observability_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/observability"
)

// TestProjectIsTheSameFromTheLog checks that a batch in memory gives the same bytes as after it is
// stored and read, whatever its content.
func TestProjectIsTheSameFromTheLog(t *testing.T) {
	const bad = "torn \xff\xfe\xe2\x82 end"
	origin := conversation.Origin{Root: "sub_1"}
	inMemory := conversation.Batch{Offset: 7, Records: []conversation.Record{
		&conversation.SubmissionAdmitted{Submission: "sub_1", Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: bad}, At: 1},
		&conversation.ToolCalled{Message: "msg_1", Call: "call_1", Name: "say", Input: json.RawMessage("{ \"word\": \"a \\\" b\",\n\t\"n\": [1, 2] }")},
		&conversation.ToolCalled{Message: "msg_1", Call: "call_2", Name: "say", Input: json.RawMessage(`{"word":"a \" b","\\":1}`)},
		&conversation.StepCompleted{Origin: origin, Turn: "turn_1", StopReason: "tool_use", Calls: []conversation.CallName{{Call: "call_1", Name: "say"}, {Call: "call_2", Name: "say"}}},
		&conversation.ToolSettled{Origin: origin, Call: "call_1", Output: json.RawMessage(" [ \"<\" , \"\xff\" ]\r\n")},
		&conversation.ToolSettled{Origin: origin, Call: "call_2", Failed: true, ErrorText: bad},
		&conversation.ToolSettled{Origin: origin, Call: "call_3"},
		&conversation.ChildStarted{Origin: origin, Child: "conv_2", Call: "call_4", Prompt: bad},
		&conversation.SubmissionSettled{Submission: "sub_1", Outcome: conversation.OutcomeFailed, Error: &conversation.SettlementError{
			Type: conversation.CodeTimeout, Message: bad, Meta: map[string]any{"attempts": 3},
		}},
	}}
	lines, err := conversation.EncodeRecords(nil, inMemory.Records)
	if err != nil {
		t.Fatal(err)
	}
	records, err := conversation.DecodeRecords(lines)
	if err != nil {
		t.Fatal(err)
	}
	stored := conversation.Batch{Offset: inMemory.Offset, Records: records}
	src := observability.Source{Key: "k", Agent: "chat", ID: "c", Conversation: "conv_1"}
	for name, o := range map[string]*observability.ProjectOptions{
		"lengths": nil, "content": {Content: true}, "a little": {Content: true, MaxContentBytes: 8},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(projected(t, src, stored, o), projected(t, src, inMemory, o)); diff != "" {
				t.Errorf("(-from the log +from memory):\n%s", diff)
			}
		})
	}
}

// TestCutOffTurnsAreNoErrors checks that a turn that did not end by its model has its own finish
// reason, and neither isError nor an error.
func TestCutOffTurnsAreNoErrors(t *testing.T) {
	step := func(stop string) *conversation.StepCompleted {
		return &conversation.StepCompleted{Origin: conversation.Origin{Root: "sub_1"}, Turn: "turn_1", StopReason: stop}
	}
	again := func(after conversation.Started) *conversation.AttemptStarted {
		return &conversation.AttemptStarted{Submission: "sub_1", Attempt: 2, After: after}
	}
	child := step("interrupted")
	child.Child = "conv_2"
	for _, test := range []struct {
		name    string
		records []conversation.Record
		want    []string // finish reason, isError and type of error of each turn
	}{
		{"a good end", []conversation.Record{step("stop")}, []string{"stop false "}},
		{"the model fails", []conversation.Record{step("error")}, []string{"error true model_failed"}},
		{"a drain", []conversation.Record{step("interrupted"), again(conversation.AfterPause)}, []string{"handover false "}},
		{"a drain, in a subagent", []conversation.Record{child, step("interrupted"), again(conversation.AfterPause)}, []string{"handover false ", "handover false "}},
		{"a loss", []conversation.Record{step("interrupted"), again(conversation.AfterLoss)}, []string{"interrupted false "}},
		{"the end of its time", []conversation.Record{step("interrupted"), &conversation.SubmissionSettled{Submission: "sub_1", Outcome: "failed"}}, []string{"interrupted false "}},
		{"an abort", []conversation.Record{&conversation.AbortRequested{}, step("interrupted")}, []string{"aborted false "}},
		{"an abort after a drain", []conversation.Record{&conversation.AbortRequested{}, step("interrupted"), again(conversation.AfterPause)}, []string{"aborted false "}},
	} {
		var got []string
		for _, e := range observability.Project(observability.Source{Key: "k"}, conversation.Batch{Records: test.records}, nil) {
			if p, ok := e.Payload.(*observability.Turn); ok {
				got = append(got, described(p))
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: turns of %v (-want +got):\n%s", test.name, test.records, diff)
		}
	}
	for reason, want := range map[string]string{
		"handover": "handover false ", "interrupted": "interrupted false ", "aborted": "aborted false ", "": "error true ", "rate_limit": "error true rate_limit",
	} {
		if got := described(observability.FailedTurn("openai/gpt", conversation.CallFacts{}, reason, 1, 0)); got != want {
			t.Errorf("turn of a call without output that ended with %q: got %q, want %q", reason, got, want)
		}
	}
}

func described(t *observability.Turn) string {
	kind := ""
	if t.Response.Error != nil {
		kind = t.Response.Error.Type
	}
	return fmt.Sprint(t.Response.FinishReason, " ", t.IsError, " ", kind)
}

// TestProjectWithoutOrigin checks that records of versions without origins name no operation.
func TestProjectWithoutOrigin(t *testing.T) {
	b := conversation.Batch{Records: []conversation.Record{
		&conversation.ChildStarted{Child: "conv_2", Agent: "reader"}, &conversation.ChildSettled{Child: "conv_2", Agent: "reader"},
	}}
	for _, e := range observability.Project(observability.Source{Key: "k"}, b, nil) {
		if e.Operation != "" && e.Operation != "op_2" {
			t.Errorf("%s: got operation %q", e.Type, e.Operation)
		}
	}
}

// projected returns the events of a batch as JSON.
func projected(t *testing.T, src observability.Source, b conversation.Batch, o *observability.ProjectOptions) (lines []string) {
	t.Helper()
	for _, e := range observability.Project(src, b, o) {
		line, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return lines
}

// TestPostsAreShownWithoutSecrets checks that only the host of a URL is shown.
func TestPostsAreShownWithoutSecrets(t *testing.T) {
	for target, want := range map[string]string{
		"ledger": "ledger", "https://hooks.example.com/secret": "https://hooks.example.com", "https://a.example:8443?key=1": "https://a.example:8443",
		"https://a.example#x": "https://a.example",
	} {
		for _, r := range []conversation.Record{
			&conversation.PostDeferred{Post: "post_1", Submission: "sub_1", Target: target, Attempts: 1}, &conversation.PostDone{Post: "post_1", Submission: "sub_1", Target: target, End: conversation.PostDead, Attempts: 1},
		} {
			events := observability.Project(observability.Source{Key: "key", Agent: "a"}, conversation.Batch{Records: []conversation.Record{r}}, &observability.ProjectOptions{})
			if len(events) != 1 || events[0].Submission != "sub_1" || events[0].Payload.(*observability.Post).Target != want {
				t.Errorf("%T to %s: got %+v", r, target, events)
			}
		}
	}
}
