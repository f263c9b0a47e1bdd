package conversation_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/conversation"
)

func suspended(sub conversation.SubmissionID) *conversation.Suspended {
	return &conversation.Suspended{Submission: sub, Until: at + 1000, Reason: conversation.ReasonTimer, At: at}
}

// overtaken returns a conversation in which sub_1 is suspended and sub_2 is answered.
func overtaken(t *testing.T) *conversation.State {
	t.Helper()
	s := conversation.NewState()
	apply(t, s, created(), admitted(1), attempt("sub_1", 1), started("res_1", "sub_1", "turn_1"), called("call_1"),
		&conversation.StepCompleted{Message: "res_1", Turn: "turn_1", StopReason: "tool_use"})
	apply(t, s, suspended("sub_1"))
	apply(t, s, admitted(2), &conversation.Overtook{Must: true, Submission: "sub_2"}, attempt("sub_2", 1))
	return s
}

func TestOvertake(t *testing.T) {
	s := overtaken(t)
	if sub := s.UnderWay(); sub == nil || sub.ID != "sub_2" {
		t.Errorf("got the active submission %+v", sub)
	}
	kept := restored(t, s)
	if sub := kept.UnderWay(); sub == nil || sub.ID != "sub_2" || !sub.Ahead || kept.Unsettled()[0].Suspended == nil {
		t.Errorf("got the active submission %+v after a checkpoint", sub)
	}
	apply(t, s, settled("sub_2"), attempt("sub_1", 1))
	if sub := s.UnderWay(); sub == nil || sub.ID != "sub_1" || s.Submission("sub_2").Ahead {
		t.Errorf("got the active submission %+v", sub)
	}
	for name, c := range map[string]struct {
		records []conversation.Record
		want    string
	}{
		"of a running one":   {[]conversation.Record{admitted(3), &conversation.Overtook{Submission: "sub_3"}}, "sub_1, which comes first, is not suspended"},
		"without the record": {[]conversation.Record{suspended("sub_1"), admitted(3), attempt("sub_3", 1)}, "not the first in the queue"},
		"of a settled one":   {[]conversation.Record{suspended("sub_1"), &conversation.Overtook{Submission: "sub_2"}}, "sub_2 is settled"},
		"next to another":    {[]conversation.Record{suspended("sub_1"), admitted(3), &conversation.Overtook{Submission: "sub_3"}, attempt("sub_3", 1), attempt("sub_1", 1)}, "sub_3 is running"},
		"of two unsuspended": {[]conversation.Record{suspended("sub_1"), admitted(3), admitted(4), &conversation.Overtook{Submission: "sub_4"}}, "sub_3, which comes first, is not suspended"},
	} {
		s := overtaken(t)
		apply(t, s, settled("sub_2"), attempt("sub_1", 1))
		err := s.Extend(s.Head()+1, c.records...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestViewOfOvertaken(t *testing.T) {
	s := overtaken(t)
	apply(t, s, &conversation.Compacted{Summary: "so far", FirstKept: "sub_2", FirstTurn: "turn_9"})
	if c := s.Compacted("sub_2"); c == nil || c.FirstKept != "sub_2" || c.FirstTurn != "turn_9" {
		t.Errorf("the overtaking submission sees %+v", c)
	}
	if c := s.Compacted("sub_1"); c == nil || c.FirstKept != "sub_1" || c.FirstTurn != "" || c.Summary != "so far" {
		t.Errorf("the overtaken submission sees %+v", c)
	}
}
