package feed_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/feed"
)

func begun() records {
	return records{
		&conversation.ConversationCreated{Agent: conversation.WorkflowAgent("report"), ID: "run_1", UID: "inst_1", ConversationID: "conv_1", At: 1000},
		admitted("1", `{"day": "<1>"}`), &conversation.RunStarted{Must: true, Submission: "sub_1", At: 1001}, attempt("1"),
	}
}

// called is the batch in which the function of a run is called.
func called() records {
	root := conversation.Origin{Root: "sub_1"}
	return records{
		started("1", "1"),
		&conversation.ToolCalled{Origin: root, Message: "msg_1", Call: "call_1", Name: "report", Input: json.RawMessage(`{"day":"<1>"}`), Durable: true, At: 1003},
		completed("1", "1", "tool_use", conversation.CallName{Call: "call_1", Name: "report"}),
	}
}

func showsWait(state string) *conversation.DataWritten {
	return &conversation.DataWritten{Message: "msg_1", Name: "wait-call_1", Data: json.RawMessage(fmt.Sprintf(`{"name":"approval","state":%q}`, state))}
}

func signalled() records {
	s := admitted("2", "true")
	s.Delivery.Kind, s.Delivery.Type, s.At = conversation.KindSignal, conversation.SignalWait, 3000
	done := settled("2", conversation.OutcomeCompleted)
	done.At = 3000
	return records{s, done}
}

// ran is the batch in which the function has returned.
func ran(output string) records {
	done := settled("1", conversation.OutcomeCompleted)
	done.At = 4000
	return records{
		&conversation.ToolSettled{Origin: conversation.Origin{Root: "sub_1"}, Call: "call_1", Name: "report", Turn: "turn_1", Output: json.RawMessage(output), Terminate: true, At: 4000}, done,
	}
}

// runScripts are the histories of runs whose events are in testdata.
func runScripts() map[string][]records {
	lost := attempt("1")
	lost.Attempt, lost.After, lost.At = 2, conversation.AfterLoss, 2000
	paused := attempt("1")
	paused.After, paused.At = conversation.AfterPause, 3001
	wait := &conversation.WaitStarted{Must: true, Call: "call_1", Name: "approval", Schema: json.RawMessage(`true`), Until: 9000, At: 2001}
	resumed := &conversation.WaitEnded{Must: true, Call: "call_1", Name: "approval", Reason: conversation.EndedBySignal, Signal: "sub_2", Value: json.RawMessage(`true`), At: 3000}
	failed := settled("1", conversation.OutcomeFailed)
	failed.Error = &conversation.SettlementError{Type: conversation.CodeRunFailed, Message: "out of paper"}
	aborted := settled("1", conversation.OutcomeAborted)
	aborted.Error = &conversation.SettlementError{Type: conversation.CodeAborted, Message: "It was aborted."}
	return map[string][]records{
		"run": {
			begun(), called(),
			{&conversation.StepRecorded{Call: "call_1", Name: "open", Output: json.RawMessage(`1`)}},
			{lost},
			{wait, showsWait("waiting")},
			{&conversation.Suspended{Submission: "sub_1", Until: 9000, Reason: conversation.ReasonTimer, At: 2002}},
			append(signalled(), resumed, showsWait("signal"), paused),
			{&conversation.StepRecorded{Call: "call_1", Name: "close", Output: json.RawMessage(`{"n":2}`)}},
			ran(`{"lines": "<3>"}`),
			signalled(), // too late
			{&conversation.DataWritten{Message: "msg_1", Name: "late", Data: json.RawMessage(`1`)}},
			{&conversation.ConversationDeleted{At: 5000}},
			begun(), // again, under the same id
		},
		"run failed": {
			begun(), called(),
			{&conversation.ToolSettled{Origin: conversation.Origin{Root: "sub_1"}, Call: "call_1", Name: "report", Failed: true, ErrorText: "out of paper", At: 1008}, failed},
		},
		"run aborted": {
			begun(), called(),
			{
				&conversation.AbortRequested{Submissions: []conversation.SubmissionID{"sub_1"}, At: 1006},
				&conversation.ToolSettled{Origin: conversation.Origin{Root: "sub_1"}, Call: "call_1", Name: "report", Failed: true, ErrorText: "aborted", At: 1007},
				&conversation.Advisory{Message: "msg_n", Submission: "sub_1", Text: "for a model", Display: conversation.DisplayHidden},
				&conversation.Advisory{Message: "msg_a", Submission: "sub_1", Text: "It was aborted.", Display: conversation.DisplayDiagnostic}, aborted,
			},
		},
	}
}

// TestStreamOfARunCloses checks that run_end closes the stream, and that a new incarnation reopens it.
// covers: beta/109
func TestStreamOfARunCloses(t *testing.T) {
	p := new(feed.Projector)
	closed := func(want bool, b records) {
		t.Helper()
		if err := p.Apply(b, nil); err != nil || p.Closed() != want {
			t.Fatalf("closed is %t, %v", p.Closed(), err)
		}
	}
	closed(false, begun())
	closed(false, called())
	closed(true, ran(`null`))
	end := p.Next()
	closed(true, signalled())
	mark, err := p.Mark(3)
	if err != nil {
		t.Fatal(err)
	}
	again, err := mark.Resume(begun()[0].(*conversation.ConversationCreated))
	if err != nil || !again.Closed() || again.Next() != end {
		t.Errorf("resumed at %d of %d, %v", again.Next(), end, err)
	}
	closed(false, records{&conversation.ConversationDeleted{At: 5000}})
	closed(false, begun())
	if p.FirstEvent() != end || p.Next() != end+1 {
		t.Errorf("new incarnation: got first event %d and next %d, want both after %d", p.FirstEvent(), p.Next(), end)
	}
	p = new(feed.Projector)
	closed(false, records{created(), admitted("1", "hi"), settled("1", conversation.OutcomeCompleted)})
}
