package conversation_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parleyrun/parley/conversation"
)

func enqueued(id conversation.PostID, target string) *conversation.PostEnqueued {
	return &conversation.PostEnqueued{Must: true, Post: id, Submission: "sub_1", Target: target, Body: json.RawMessage(`{"a":1}`), At: at}
}

func deferred(id conversation.PostID, until conversation.Time) *conversation.PostDeferred {
	return &conversation.PostDeferred{Must: true, Post: id, Attempts: 1, Reason: "answered 503", Until: until, At: at}
}

func postDone(id conversation.PostID) *conversation.PostDone {
	return &conversation.PostDone{Must: true, Post: id, End: conversation.PostDelivered, Attempts: 1, At: at}
}

// TestPosts checks the next post of each target, its due time, and the batch that set it, before and
// after a checkpoint.
func TestPosts(t *testing.T) {
	for name, c := range map[string]struct {
		then []records // a batch each
		want string    // the next posts with their times after at, the first due time, and the batch that set it
	}{
		"none":                         {nil, "none"},
		"one":                          {[]records{{enqueued("a", "x")}}, "a@0 due 0 batch 0"},
		"the second waits":             {[]records{{enqueued("a", "x"), enqueued("b", "x")}}, "a@0 due 0 batch 0"},
		"other targets do not":         {[]records{{enqueued("a", "x")}, {enqueued("b", "y")}}, "a@0 b@0 due 0 batch 1"},
		"it is deferred":               {[]records{{enqueued("a", "x"), enqueued("b", "x")}, {deferred("a", at+5)}}, "a@5 due 5 batch 1"},
		"the first of two":             {[]records{{enqueued("a", "x"), enqueued("b", "y")}, {deferred("a", at+9)}, {deferred("b", at+5)}}, "a@9 b@5 due 5 batch 2"},
		"delivered":                    {[]records{{enqueued("a", "x"), enqueued("b", "x")}, {postDone("a")}}, "b@0 due 0 batch 1"},
		"the last":                     {[]records{{enqueued("a", "x")}, {postDone("a")}}, "none"},
		"the rest is due later":        {[]records{{enqueued("a", "x"), enqueued("b", "y")}, {deferred("b", at+5)}, {postDone("a")}}, "b@5 due 5 batch 2"},
		"again, at its place":          {[]records{{enqueued("a", "x"), enqueued("b", "x")}, {deferred("a", at+9)}, {enqueued("a", "x")}}, "a@0 due 0 batch 2"},
		"again, after its dead letter": {[]records{{enqueued("a", "x"), enqueued("b", "x")}, {postDone("a")}, {enqueued("a", "x")}}, "b@0 due 0 batch 2"},
	} {
		s := running(t)
		first := s.Head() + 1
		for _, batch := range c.then {
			apply(t, s, batch...)
		}
		for _, s := range []*conversation.State{s, restored(t, s)} {
			var next []string
			for _, p := range s.NextPosts() {
				next = append(next, fmt.Sprintf("%s@%d", p.ID, max(p.Until-at, 0)))
			}
			got := "none"
			if until, by, ok := s.PostsDue(); ok {
				got = fmt.Sprintf("%s due %d batch %d", strings.Join(next, " "), max(until-at, 0), by-first)
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	}
}

func TestPostErrors(t *testing.T) {
	for name, c := range map[string]struct {
		records records
		want    string
	}{
		"deferred, and unknown":      {records{deferred("a", at)}, "there is no post a"},
		"deferred after it was done": {records{enqueued("a", "x"), postDone("a"), deferred("a", at)}, "there is no post a"},
		"done, and unknown":          {records{postDone("a")}, "there is no post a"},
		"done a second time":         {records{enqueued("a", "x"), postDone("a"), postDone("a")}, "there is no post a"},
		"a notice of an unknown one": {records{&conversation.NoticeAsked{Submission: "sub_9"}}, "unknown submission"},
		"a notice of a settled one":  {records{completed("res_1", "turn_1"), settled("sub_1"), &conversation.NoticeAsked{Submission: "sub_1"}}, "is settled"},
	} {
		s := running(t)
		if err := s.Extend(s.Head()+1, c.records...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestNotice(t *testing.T) {
	s := conversation.NewState()
	apply(t, s, created(), admitted(1), &conversation.NoticeAsked{Must: true, Submission: "sub_1", Target: "ledger"}, attempt("sub_1", 1),
		started("res_1", "sub_1", "turn_1"), &conversation.Delta{Message: "res_1", Kind: conversation.PartText, Text: "<yes>"},
		&conversation.StepCompleted{
			Message: "res_1", Turn: "turn_1", StopReason: "stop", Usage: conversation.Usage{Input: 3, Total: 5}, Facts: conversation.CallFacts{Price: &conversation.Price{Total: 0.25}},
		})
	s = restored(t, s)
	if got := s.Submission("sub_1").Notify; !cmp.Equal(got, []string{"ledger"}) {
		t.Errorf("got targets %q", got)
	}
	got, err := s.Notice(settled("sub_1").(*conversation.SubmissionSettled))
	if err != nil {
		t.Fatal(err)
	}
	of := s.Created()
	want := fmt.Sprintf(`{"type":"submission.settled","timestamp":"2026-01-02T03:04:05.678Z","data":{"agent":%q,"id":%q,"uid":%q,"submissionId":"sub_1","outcome":"completed","text":"<yes>","usage":{"input":3,"total":5},"dollars":0.25}}`, of.Agent, of.ID, of.UID)
	if string(got) != want {
		t.Errorf("got notice\n%s, want\n%s", got, want)
	}
	if _, err := s.Notice(settled("sub_9").(*conversation.SubmissionSettled)); err == nil {
		t.Error("notice of an unknown submission")
	}
}
