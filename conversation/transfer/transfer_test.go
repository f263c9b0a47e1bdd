package transfer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/conversation/transfer"
)

var incarnation = transfer.Incarnation{Address: conversation.Address{Agent: "a", ID: "1"}, UID: "inst_1"}

// gathered reads events in one page and formats them, one line per part and end.
func gathered(t testing.TB, page string) string {
	t.Helper()
	var e transfer.Events
	if _, err := e.Page([]byte("[" + page + "]")); err != nil {
		return "error: " + err.Error()
	}
	c, err := e.Conversation()
	if err == nil {
		_, err = c.Records(incarnation)
	}
	if err != nil {
		return "error: " + err.Error()
	}
	var out strings.Builder
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			out.WriteString(string(m.Role) + " " + p.Type + " " + p.State)
			if p.Text != nil {
				out.WriteString(" " + *p.Text)
			}
			if p.ErrorText != nil {
				out.WriteString(" " + *p.ErrorText)
			}
			out.WriteString(string(p.Output) + string(p.Data) + "\n")
		}
	}
	for _, s := range c.Settlements {
		out.WriteString(string(s.SubmissionID) + " " + string(s.Outcome))
		if s.Error != nil {
			out.WriteString(" " + string(s.Error.Type) + ": " + s.Error.Message)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func TestEvents(t *testing.T) {
	const asked = `{"type":"message_end","submissionId":"sub_1","message":{"role":"user","content":"Hi"}},`
	const user = "user text done Hi\n"
	for name, tt := range map[string]struct{ page, want string }{
		"settled": {
			asked + `{"type":"submission_settled","submissionId":"sub_1","outcome":"completed","result":{"text":"x"}}`,
			user + "sub_1 completed\n",
		},
		"the_settlement_counts_and_not_its_operation": {
			asked + `{"type":"operation","operationKind":"prompt","submissionId":"sub_1","isError":true},{"type":"submission_settled","submissionId":"sub_1","outcome":"aborted"}`,
			user + "sub_1 aborted submission_aborted: The submission was aborted.\n",
		},
		"a_failure_in_words": {
			asked + `{"type":"submission_settled","submissionId":"sub_1","outcome":"failed","error":"no model"}`,
			user + "sub_1 failed internal_error: no model\n",
		},
		"a_failure_with_a_type": {
			asked + `{"type":"submission_settled","submissionId":"sub_1","outcome":"failed","error":{"type":"model_failed","message":"No."}}`,
			user + "sub_1 failed model_failed: No.\n",
		},
		"a_message_that_a_repeated_attempt_shows_again": {
			asked + asked + `{"type":"operation","operationKind":"prompt","submissionId":"sub_1","isError":false}`,
			user + "sub_1 completed\n",
		},
		"a_withdrawn_reply": {
			asked + `{"type":"message_end","submissionId":"sub_1","message":{"role":"assistant","content":[]}},{"type":"message_end","submissionId":"sub_1","message":{"role":"assistant","content":"Yes."}},{"type":"operation","operationKind":"prompt","submissionId":"sub_1"}`,
			user + "assistant text done Yes.\nsub_1 completed\n",
		},
		"what_subagents_do": {
			asked + `{"type":"message_end","submissionId":"sub_1","taskId":"t","message":{"role":"user","content":"look"}},{"type":"operation","operationKind":"prompt","submissionId":"sub_1","taskId":"t","isError":true},{"type":"operation","operationKind":"prompt","submissionId":"sub_1"}`,
			user + "sub_1 completed\n",
		},
		"tools": {
			asked + `{"type":"message_end","submissionId":"sub_1","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"a","arguments":{}},{"type":"toolCall","id":"c2","name":"b"},{"type":"toolCall","id":"c3","name":"c"}]}},` +
				`{"type":"tool","submissionId":"sub_1","toolCallId":"c1","result":{"n":1}},{"type":"tool","submissionId":"sub_1","toolCallId":"c2","isError":true,"result":"broke"},` +
				`{"type":"data","submissionId":"sub_1","name":"source","data":[1]},{"type":"operation","operationKind":"prompt","submissionId":"sub_1"}`,
			user + "assistant dynamic-tool output-available{\"n\":1}\nassistant dynamic-tool output-error broke\n" +
				"assistant dynamic-tool output-error The event stream has no outcome of this call.\nassistant data-source [1]\nsub_1 completed\n",
		},
		"dispatches":     {`{"type":"message_end","dispatchId":"dsp_1","message":{"role":"user","content":"Hi"}},{"type":"operation","operationKind":"prompt","dispatchId":"dsp_1"}`, user + "dsp_1 completed\n"},
		"nothing":        {``, "error: the conversation has no message"},
		"at_work":        {strings.TrimSuffix(asked, ","), "error: submission sub_1 is not settled: wait for its end or abort it, then transfer the conversation"},
		"of_a_run":       {`{"type":"run_start","runId":"run_1"}`, "error: read event 0: a workflow run is not a conversation"},
		"an_odd_outcome": {asked + `{"type":"submission_settled","submissionId":"sub_1","outcome":"lost"}`, `error: read event 1: unknown outcome "lost" of a submission`},
		"a_reply_without_a_submission": {`{"type":"message_end","submissionId":"sub_1","message":{"role":"assistant","content":"Yes."}},{"type":"operation","operationKind":"prompt","submissionId":"sub_1"}`,
			"error: message 0 (msg_import_0): submission sub_1 is not open"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, gathered(t, tt.page)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGrownConversationBeginsAlike(t *testing.T) {
	const one = `{"type":"message_end","submissionId":"sub_N","message":{"role":"user","content":"Hi"}},{"type":"operation","operationKind":"prompt","submissionId":"sub_N"}`
	lines := func(n int) string {
		var e transfer.Events
		for i := range n {
			if _, err := e.Page([]byte("[" + strings.ReplaceAll(one, "N", string(rune('a'+i))) + "]")); err != nil {
				t.Fatal(err)
			}
		}
		c, err := e.Conversation()
		if err != nil {
			t.Fatal(err)
		}
		groups, err := c.Records(incarnation)
		if err != nil {
			t.Fatal(err)
		}
		var out []byte
		for _, g := range groups {
			if out, err = conversation.EncodeRecords(out, g); err != nil {
				t.Fatal(err)
			}
		}
		return string(out)
	}
	if !strings.HasPrefix(lines(7), lines(3)) {
		t.Error("later records do not begin with the earlier ones")
	}
}

// covers: upgrade/33
func TestLongGroupsSettleWhatTheyAdmit(t *testing.T) {
	text, yes := strings.Repeat("word ", 100_000), "Yes."
	message := func(id, sub string, role conversation.Role, purpose conversation.Purpose, text *string) conversation.Message {
		return conversation.Message{
			ID: conversation.MessageID(id), Role: role, Purpose: purpose, Display: conversation.DisplayVisible, SubmissionID: conversation.SubmissionID(sub),
			Parts: []conversation.Part{{Type: conversation.PartTypeText, Text: text, State: conversation.StateDone}},
		}
	}
	c := &transfer.Conversation{ID: "conv_1"}
	for _, n := range []string{"1", "3", "5"} { // the second of two arrives while the first is answered
		next := n + "b"
		c.Messages = append(c.Messages,
			message("msg_u"+n, "sub_"+n, conversation.RoleUser, conversation.PurposeUser, &text),
			message("msg_u"+next, "sub_"+next, conversation.RoleUser, conversation.PurposeUser, &text),
			message("msg_a"+n, "sub_"+n, conversation.RoleAssistant, conversation.PurposeAssistant, &yes),
			message("msg_a"+next, "sub_"+next, conversation.RoleAssistant, conversation.PurposeAssistant, &yes),
		)
		for _, sub := range []string{n, next} {
			c.Settlements = append(c.Settlements, conversation.Settlement{SubmissionID: conversation.SubmissionID("sub_" + sub), Outcome: conversation.OutcomeCompleted})
		}
	}
	groups, err := c.Records(incarnation)
	if err != nil || len(groups) != 3 {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
	state := conversation.NewState()
	for n, g := range groups {
		if err := state.Apply(conversation.Batch{Offset: conversation.Offset(n), Records: g}); err != nil {
			t.Fatal(err)
		}
		if unsettled := len(state.Unsettled()); unsettled > 0 {
			t.Errorf("after group %d: got %d unsettled submissions", n, unsettled)
		}
	}
}

func TestSnapshots(t *testing.T) {
	const user = `{"id":"msg_1","role":"user","purpose":"user","display":"visible","submissionId":"sub_1","parts":[{"type":"text","text":"Hi","state":"done"}]}`
	for name, tt := range map[string]struct{ json, want string }{
		"no_json":                        {`{`, "read snapshot"},
		"another_version":                {`{"v":2}`, "version 2, want 1"},
		"a_missing_reply":                {`{"v":1,"messages":[` + user + `],"settlements":[{"submissionId":"sub_2","outcome":"completed"}]}`, "not settled"},
		"a_settlement_without_a_message": {`{"v":1,"messages":[` + user + `],"settlements":[{"submissionId":"sub_1","outcome":"completed"},{"submissionId":"sub_2","outcome":"completed"}]}`, "settlement of sub_2 has no message"},
		"a_missing_attachment": {`{"v":1,"messages":[{"id":"msg_1","role":"user","purpose":"user","display":"visible","submissionId":"sub_1","parts":[{"type":"text","text":""},{"type":"file","id":"att_1"}]}]}`,
			"missing attachment att_1"},
		"an_unknown_kind_of_message": {`{"v":1,"messages":[{"id":"msg_1","role":"user","purpose":"user","display":"hidden","submissionId":"sub_1","parts":[{"type":"text","text":"Hi","state":"done"}]}],"settlements":[{"submissionId":"sub_1","outcome":"completed"}]}`,
			"converted to"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := transfer.ParseSnapshot([]byte(tt.json))
			if err == nil {
				_, err = c.Records(incarnation)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

// FuzzTransfer checks that any input is rejected, or yields records that fold.
func FuzzTransfer(f *testing.F) {
	f.Add([]byte(`{"v":1,"conversationId":"conv_1","messages":[{"id":"m","role":"user","purpose":"user","display":"visible","submissionId":"s","parts":[{"type":"text","text":"x"}]}],"settlements":[]}`))
	f.Add([]byte(`[{"type":"message_end","submissionId":"s","message":{"role":"user","content":"x"}},{"type":"operation","operationKind":"prompt","submissionId":"s"}]`))
	f.Add([]byte(`[{"type":"message_end","message":{"role":"assistant","content":[{"type":"toolCall","id":"c"},{"type":"text","text":"x"}]}},{"type":"tool","toolCallId":"c"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := transfer.ParseSnapshot(b)
		if err != nil {
			var e transfer.Events
			if _, err = e.Page(b); err == nil {
				c, err = e.Conversation()
			}
		}
		if err != nil {
			return
		}
		groups, err := c.Records(incarnation)
		var atWork *transfer.AtWorkError
		if err == nil && len(groups) == 0 || errors.As(err, &atWork) && atWork.Submission == "" && len(c.Messages) == 0 {
			t.Errorf("%d groups, %v", len(groups), err)
		}
	})
}

func TestTransferOfRepeatedData(t *testing.T) {
	c, err := transfer.ParseSnapshot([]byte(`{"v":1,"conversationId":"conv_1","messages":[
		{"id":"m1","role":"user","purpose":"user","display":"visible","submissionId":"s1","parts":[{"type":"text","text":"Hi","state":"done"}]},
		{"id":"m2","role":"assistant","purpose":"assistant","display":"visible","submissionId":"s1","parts":[
			{"type":"data-plan","data":1},{"type":"text","text":"a","state":"done"},{"type":"data-plan","data":2},{"type":"text","text":"b","state":"done"}]}],
		"settlements":[{"submissionId":"s1","outcome":"completed"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := c.Records(incarnation)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups {
		for _, r := range g {
			switch r := r.(type) {
			case *conversation.DataWritten:
				got = append(got, r.Name+" "+string(r.Data))
			case *conversation.Delta:
				got = append(got, r.Text)
			}
		}
	}
	if diff := cmp.Diff([]string{"plan 2", "a", "b"}, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
