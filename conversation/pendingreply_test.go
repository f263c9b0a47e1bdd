package conversation_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

func pendingReply(sub conversation.SubmissionID) *conversation.ReplyPending {
	return &conversation.ReplyPending{Must: true, Submission: sub, To: sampleReplyTo()}
}

// TestPendingReply checks that a reply stays in the state from the settlement until it is sent, in cut
// history and checkpoints too.
func TestPendingReply(t *testing.T) {
	for name, text := range map[string]string{"short": "yes", "long": strings.Repeat("yes ", conversation.MaxReplyBytes)} {
		s := conversation.NewState()
		apply(t, s, created(), admitted(1), pendingReply("sub_1"), attempt("sub_1", 1), started("res_1", "sub_1", "turn_1"),
			&conversation.Delta{Message: "res_1", Kind: conversation.PartReasoning, Text: "hm"}, &conversation.Delta{Message: "res_1", Kind: conversation.PartText, Text: text},
			&conversation.StepCompleted{Message: "res_1", Turn: "turn_1", StopReason: "stop"})
		if o := s.ReplyIsPending("sub_1"); o == nil || o.Reply != nil || o.To != sampleReplyTo() {
			t.Fatalf("%s: got pending reply %+v before the settlement", name, o)
		}
		apply(t, s, settled("sub_1"))
		if _, err := s.Cut(); err != nil {
			t.Fatal(err)
		}
		s = restored(t, s)
		o := s.ReplyIsPending("sub_1")
		if o == nil || o.Reply == nil || o.At != s.Head() || o.Reply.Outcome != conversation.OutcomeCompleted {
			t.Fatalf("%s: got pending reply %+v", name, o)
		}
		if cut := len(text) > conversation.MaxReplyBytes; o.Reply.Truncated != cut || !cut && o.Reply.Text != text || !strings.HasPrefix(text, o.Reply.Text[:3]) || len(o.Reply.Text) > conversation.MaxReplyBytes {
			t.Errorf("%s: got a reply of %d bytes, cut %v", name, len(o.Reply.Text), o.Reply.Truncated)
		}
		apply(t, s, &conversation.ReplySent{Must: true, Submission: "sub_1"})
		if len(s.PendingReplies()) != 0 {
			t.Errorf("%s: sent reply is still pending", name)
		}
	}
}

func TestPendingReplyErrors(t *testing.T) {
	for name, c := range map[string]struct {
		records []conversation.Record
		want    string
	}{
		"twice":              {[]conversation.Record{pendingReply("sub_1"), pendingReply("sub_1")}, "pending already"},
		"of a settled one":   {[]conversation.Record{settled("sub_1"), pendingReply("sub_1")}, "is settled"},
		"sent too early":     {[]conversation.Record{pendingReply("sub_1"), &conversation.ReplySent{Submission: "sub_1"}}, "no reply to sub_1"},
		"without a waiter":   {[]conversation.Record{settled("sub_1"), &conversation.ReplySent{Submission: "sub_1"}}, "no reply to sub_1"},
		"of an unknown one":  {[]conversation.Record{pendingReply("sub_9")}, "unknown submission"},
		"sent a second time": {[]conversation.Record{pendingReply("sub_1"), settled("sub_1"), &conversation.ReplySent{Submission: "sub_1"}, &conversation.ReplySent{Submission: "sub_1"}}, "no reply to sub_1"},
	} {
		s := conversation.NewState()
		apply(t, s, created(), admitted(1))
		if err := s.Extend(s.Head()+1, c.records...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
