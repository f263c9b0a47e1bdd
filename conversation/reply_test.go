package conversation_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

func TestReplyOfASubmission(t *testing.T) {
	text := func(kind, s string) conversation.Part { return conversation.Part{Type: kind, Text: &s} }
	data := func(name, v string) conversation.Part {
		return conversation.Part{Type: conversation.DataPrefix + name, Data: json.RawMessage(v)}
	}
	s := &conversation.Snapshot{
		Messages: []conversation.Message{
			{ID: "m1", Role: conversation.RoleUser, SubmissionID: "s1", Parts: []conversation.Part{text("text", "hello")}},
			{ID: "m2", Role: conversation.RoleAssistant, SubmissionID: "s1", Parts: []conversation.Part{
				text("reasoning", "hm"), text("text", "one"), data("card", `{"n":1}`), data("note", `2`), text("text", "two"), data("card", `null`),
			}},
			{ID: "m3", Role: conversation.RoleSystem, SubmissionID: "s1", Parts: []conversation.Part{text("text", "advice")}},
			{ID: "m4", Role: conversation.RoleUser, SubmissionID: "s2"},
			{ID: "m5", Role: conversation.RoleUser, SubmissionID: "s3"},
			{ID: "m6", Role: conversation.RoleAssistant, SubmissionID: "s3"},
		},
		Settlements: []conversation.Settlement{
			{SubmissionID: "s1", Outcome: conversation.OutcomeCompleted}, {SubmissionID: "s2", Outcome: conversation.OutcomeAborted},
		},
	}
	for id, want := range map[conversation.SubmissionID]struct {
		message conversation.MessageID
		outcome conversation.Outcome
	}{
		"s1": {"m2", conversation.OutcomeCompleted},
		"s2": {"", conversation.OutcomeAborted},
		"s3": {"m6", ""},
		"s4": {"", ""},
	} {
		m, end := s.Reply(id)
		if (m == nil) != (want.message == "") || m != nil && m.ID != want.message {
			t.Errorf("%s: got reply %+v, want %q", id, m, want.message)
		}
		if (end == nil) != (want.outcome == "") || end != nil && (end.Outcome != want.outcome || end.SubmissionID != id) {
			t.Errorf("%s: got settlement %+v, want %q", id, end, want.outcome)
		}
	}
	m, _ := s.Reply("s1")
	if got := m.Text(); got != "one\n\ntwo" {
		t.Errorf("got text %q", got)
	}
	var got []string
	for _, d := range m.Data() {
		got = append(got, d.Name+string(d.Data))
	}
	if diff := cmp.Diff([]string{`card{"n":1}`, "note2", "cardnull"}, got); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if empty := (&conversation.Message{}); empty.Text() != "" || empty.Data() != nil {
		t.Errorf("empty message: got text %q and data %v", empty.Text(), empty.Data())
	}
}
