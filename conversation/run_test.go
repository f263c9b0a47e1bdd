package conversation_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// startedRun begins the log of a run.
func startedRun() records {
	return records{
		&conversation.ConversationCreated{Agent: conversation.WorkflowAgent("report"), ID: "run_1", UID: "inst_1", ConversationID: "conv_1", At: at},
		&conversation.SubmissionAdmitted{
			Submission: "sub_1", Message: "msg_1", Key: "run", PayloadHash: "h", At: at,
			Delivery: conversation.Delivery{Kind: conversation.KindUser, Body: `{"day":1}`},
		},
		&conversation.RunStarted{Must: true, Submission: "sub_1", At: at},
		&conversation.AttemptStarted{Submission: "sub_1", Attempt: 1, Writer: "w", At: at},
	}
}

func TestRun(t *testing.T) {
	failed := &conversation.SettlementError{Type: conversation.CodeRunFailed, Message: "no report"}
	for name, c := range map[string]struct {
		outcome *conversation.ToolSettled
		end     conversation.SubmissionSettled
		want    conversation.Run
	}{
		"completed": {
			&conversation.ToolSettled{Call: "call_1", Output: json.RawMessage(`{"lines":3}`), Terminate: true, At: at},
			conversation.SubmissionSettled{Outcome: conversation.OutcomeCompleted},
			conversation.Run{Outcome: conversation.OutcomeCompleted, Output: json.RawMessage(`{"lines":3}`)},
		},
		"failed": {
			&conversation.ToolSettled{Call: "call_1", Failed: true, ErrorText: "no report", At: at},
			conversation.SubmissionSettled{Outcome: conversation.OutcomeFailed, Error: failed},
			conversation.Run{Outcome: conversation.OutcomeFailed, Error: failed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := conversation.NewState()
			apply(t, s, startedRun()...)
			begun := conversation.Run{Submission: "sub_1", Hash: "h", Input: json.RawMessage(`{"day":1}`), StartedAt: at}
			if diff := cmp.Diff(&begun, s.Run()); diff != "" {
				t.Fatalf("begun (-want +got):\n%s", diff)
			}
			apply(t, s,
				&conversation.ResponseStarted{Message: "res_1", Submission: "sub_1", Turn: "turn_1", At: at},
				&conversation.ToolCalled{Message: "res_1", Call: "call_1", Name: "report", Input: json.RawMessage(`{"day":1}`), Durable: true},
				completed("res_1", "turn_1"), c.outcome)
			c.end.Submission, c.end.At = "sub_1", at+5
			apply(t, s, &c.end)
			if _, err := s.Cut(); err != nil {
				t.Fatal(err)
			}
			want := c.want
			want.Submission, want.Hash, want.Input, want.StartedAt, want.EndedAt = begun.Submission, begun.Hash, begun.Input, at, at+5
			b, err := conversation.EncodeState(s)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := conversation.ReducerOf(b); err != nil || got != 17 {
				t.Errorf("got reducer %d, %v", got, err)
			}
			again, err := conversation.DecodeState(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&want, again.Run()); diff != "" {
				t.Errorf("ended (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRunsAreRunsOnly: an agent's log has no run, and a workflow's log has one, its first delivery.
func TestRunsAreRunsOnly(t *testing.T) {
	again := &conversation.RunStarted{Must: true, Submission: "sub_1", At: at}
	ofAgent := startedRun()
	ofAgent[0].(*conversation.ConversationCreated).Agent = "report"
	noJSON := startedRun()
	noJSON[1].(*conversation.SubmissionAdmitted).Delivery.Body = "{"
	for name, batches := range map[string][]records{
		"of an agent": {ofAgent}, "without JSON": {noJSON}, "twice": {append(startedRun(), again)}, "later": {startedRun()[:2], {again}},
		"of an unknown": {startedRun()[:1], {&conversation.RunStarted{Submission: "sub_9"}}},
	} {
		s := conversation.NewState()
		var err error
		for i, b := range batches {
			if err == nil {
				err = s.Apply(conversation.Batch{Offset: conversation.Offset(i), Records: b})
			}
		}
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestRunIDs(t *testing.T) {
	form := regexp.MustCompile(`^run_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	seen := map[conversation.RunID]string{}
	for i := range 1000 {
		for _, workflow := range []string{"report", "repor", "t"} {
			id, of := conversation.RunFor(workflow, fmt.Sprint("t", i)), fmt.Sprint(workflow, " t", i)
			if !form.MatchString(string(id)) || !id.Valid() {
				t.Fatalf("%s: got id %q", of, id)
			}
			if seen[id] != "" {
				t.Fatalf("%s and %s have the same id", of, seen[id])
			}
			seen[id] = of
			at := conversation.Address{Agent: conversation.WorkflowAgent(workflow), ID: string(id)}
			if at.Key() != conversation.RunAddress(id).Key() || at.Reach() != conversation.RunAddress(id) {
				t.Fatalf("%s has two keys", of)
			}
		}
	}
	if got, want := conversation.RunFor("report", "nightly"), conversation.RunID("run_0VMF1FY0DHA878AYPBFS3YXD4J"); got != want { // a stored value
		t.Errorf("%s, want %s", got, want)
	}
	for _, bad := range []conversation.RunID{"", "run_", "run_8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "run_7ZZZZZZZZZZZZZZZZZZZZZZZZ", "run_7ZZZZZZZZZZZZZZZZZZZZZZZZI", "run_7zzzzzzzzzzzzzzzzzzzzzzzzz", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"} {
		if bad.Valid() {
			t.Errorf("invalid id %q is valid", bad)
		}
	}
}
