package conversation_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

// TestSubagentIsHidden checks that a subagent's work is in the state, but invisible to clients, and
// ends with its submission.
func TestSubagentIsHidden(t *testing.T) {
	s := running(t)
	apply(t, s, called("call_1"), completed("res_1", "turn_1"))
	before, err := conversation.EncodeJSON(s.Snapshot().Messages)
	if err != nil {
		t.Fatal(err)
	}
	work := records{
		task(1, "call_1"), hidden("res_2", "task_1", "turn_2"),
		&conversation.Delta{Message: "res_2", Child: "child_1", Kind: conversation.PartText, Text: "found it"},
		&conversation.ToolCalled{Message: "res_2", Child: "child_1", Call: "call_2", Name: "label", Input: json.RawMessage(`{}`), At: at},
		&conversation.StepCompleted{Message: "res_2", Child: "child_1", Turn: "turn_2", StopReason: "tool_use", ElapsedMs: 150, At: at},
		task(2, "call_2"), taskDone(2),
		&conversation.ToolSettled{Call: "call_2", Child: "child_1", Output: json.RawMessage(`1`), ElapsedMs: 160, At: at},
		&conversation.Advisory{Message: "msg_9", Child: "child_1", Submission: "task_1", Text: "Go on.", Display: conversation.DisplayHidden},
	}
	for _, r := range work {
		apply(t, s, r)
		if got := chunksJSON(t, conversation.Batch{Offset: s.Head(), Records: records{r}}, nil); len(got) > 0 {
			t.Errorf("%s shows %v", r.Type(), got)
		}
	}
	after, err := conversation.EncodeJSON(s.Snapshot().Messages)
	if err != nil || string(after) != string(before) {
		t.Errorf("got client view %s, %v; want %s", after, err, before)
	}
	child := s.ChildOf("call_1")
	var got []string
	for _, st := range child.Turns() {
		got = append(got, fmt.Sprint(st.ID, st.Note, len(st.Parts)))
	}
	if diff := cmp.Diff([]string{"turn_22", "Go on.0"}, got); diff != "" || child.Agent != "helper" || child.Delivery.Body != "Look it up." {
		t.Errorf("turns of subagent %+v (-want +got):\n%s", child, diff)
	}
	if x := s.Exchanges("task_1"); len(x) != 1 || x[0] != child {
		t.Errorf("got exchanges %v of the subagent", x)
	}
	if a, b := s.Depth("task_1"), s.Depth("task_2"); a != 1 || b != 2 || s.Depth("sub_1") != 0 {
		t.Errorf("got depths %d and %d", a, b)
	}
	if n := len(s.Children("sub_1")); n != 2 || len(s.Children("sub_2")) != 0 {
		t.Errorf("got %d subagents", n)
	}
	if ms := s.Submission("sub_1").Elapsed().Milliseconds(); ms != 160 {
		t.Errorf("got %d ms elapsed", ms)
	}
	apply(t, s, taskDone(1), &conversation.ToolSettled{Call: "call_1", Output: json.RawMessage(`"found it"`), At: at}, settled("sub_1"))
	if s.ChildOf("call_1") != nil || s.Submission("task_1") != nil || len(s.Children("sub_1")) != 0 {
		t.Error("subagent remains after its submission settled")
	}
}

func TestSubagentsHaveADepth(t *testing.T) {
	s := running(t)
	apply(t, s, called("call_0"))
	for n := 1; ; n++ {
		err := s.Extend(s.Head(), task(n, conversation.CallID(fmt.Sprint("call_", n-1))))
		if n > conversation.MaxDepth {
			if err == nil {
				t.Errorf("depth %d: got no error", n)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		child, id := conversation.ConversationID(fmt.Sprint("child_", n)), conversation.MessageID(fmt.Sprint("deep_", n))
		apply(t, s,
			&conversation.ResponseStarted{Message: id, Submission: conversation.SubmissionID(fmt.Sprint("task_", n)), Child: child, Turn: "t", At: at},
			&conversation.ToolCalled{Message: id, Child: child, Call: conversation.CallID(fmt.Sprint("call_", n)), Name: "task", At: at})
	}
}

func TestImagesOfTools(t *testing.T) {
	s := running(t)
	image := conversation.Attachment{ID: "att_1", SHA256: "cd", MimeType: "image/png", Size: 4}
	apply(t, s, called("call_1"), completed("res_1", "turn_1"), &conversation.ToolSettled{
		Call: "call_1", Output: json.RawMessage(`1`), Attachments: []conversation.Attachment{image}, Terminate: true, At: at,
	}, settled("sub_1"))
	call := s.Submission("sub_1").Turns()[0].Parts[0].Tool
	if !call.Terminate || cmp.Diff([]conversation.Attachment{image}, call.Images) != "" {
		t.Errorf("got call %+v in the model's view", call)
	}
	if got, ok := s.Attachment("att_1"); !ok || got != image {
		t.Errorf("got attachment %+v, %t", got, ok)
	}
	apply(t, s, attempt("sub_2", 1))
	page, err := s.Cut()
	if err != nil || page == nil {
		t.Fatalf("got cut %v, %v", page, err)
	}
	if err := s.Attach([]*conversation.HistoryPage{page}); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.Attachment("att_1"); !ok || got != image {
		t.Errorf("after the cut: got attachment %+v, %t", got, ok)
	}
}

func TestHooksAreRecorded(t *testing.T) {
	s := running(t)
	apply(t, s, &conversation.HookDone{Submission: "sub_1", Hook: conversation.HookDeliveryStarted})
	for range 2 {
		apply(t, s, &conversation.HookDone{Submission: "sub_1", Hook: conversation.HookContinued})
	}
	if sub := s.Submission("sub_1"); !sub.DeliveryStarted || sub.Continued != 2 {
		t.Errorf("got %+v", sub)
	}
}
