package channels_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// TestReplies sends replies for settlement notices only, and returns the error of send to the outbox.
// covers: channels/155
func TestReplies(t *testing.T) {
	const notice = `{"type":"submission.settled","timestamp":"2026-01-02T03:04:05Z","data":{"agent":"desk","id":"slack:v1:T:C:1","uid":"inst_1",` +
		`"submissionId":"sub_1","outcome":"completed","text":"Done.","cut":true,"later":1}}`
	lost := errors.New("lost")
	for body, want := range map[string]channels.Reply{
		notice: {ID: "post_1", Agent: "desk", InstanceID: "slack:v1:T:C:1", Address: "slack:v1:T:C:1", Submission: "sub_1", Outcome: "completed", Text: "Done.", Truncated: true},
		`{"type":"submission.settled","data":{"agent":"desk","id":"i","submissionId":"sub_2","outcome":"failed","error":{"type":"x","message":"secret"}}}`: {
			ID: "post_1", Agent: "desk", InstanceID: "i", Address: "i", Submission: "sub_2", Outcome: "failed",
		},
	} {
		var got channels.Reply
		err := channels.Replies(func(_ context.Context, r channels.Reply) error { got = r; return lost }).
			Deliver(t.Context(), outbox.Post{ID: "post_1", Channel: "bot", Body: []byte(body)})
		if got != want || !errors.Is(err, lost) {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
	}
	for _, body := range []string{``, `null`, `{"paid":1}`, `{"type":"another","data":{"submissionId":"s"}}`, `{"type":"submission.settled"}`} {
		err := channels.Replies(func(context.Context, channels.Reply) error {
			t.Errorf("%s: got a call of send, want none", body)
			return nil
		}).
			Deliver(t.Context(), outbox.Post{Channel: "bot", Body: []byte(body)})
		var gone *outbox.GoneError
		if !errors.As(err, &gone) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// covers: channels/194
func TestReplyToAddress(t *testing.T) {
	var got []string
	target := channels.StreamedReplies(addresses{&got}, 100).(outbox.Live)
	body := []byte(`{"type":"submission.settled","data":{"agent":"desk","id":"i","submissionId":"sub_1","outcome":"completed","text":"Done."}}`)
	for _, address := range []string{"", "there"} {
		id := conversation.SubmissionID("sub_" + address)
		d := outbox.Draft{Channel: "bot", ReplyAddress: address, From: conversation.Address{ID: "i"}, Submission: id, Text: "Do"}
		if err := target.Show(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := target.Deliver(t.Context(), outbox.Post{Channel: "bot", ReplyAddress: address, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"i", "i", "there", "there"}; !slices.Equal(got, want) {
		t.Errorf("got addresses %q, want %q", got, want)
	}
}

type addresses struct{ got *[]string }

func (a addresses) Post(_ context.Context, r channels.Reply, text string) (string, string, error) {
	*a.got = append(*a.got, r.Address)
	return "m", text, nil
}

func (a addresses) Edit(_ context.Context, r channels.Reply, _, _ string) error {
	*a.got = append(*a.got, r.Address)
	return nil
}

// covers: channels/156
func TestReplyUUID(t *testing.T) {
	a, b := channels.Reply{ID: "post_1", Text: "x"}, channels.Reply{ID: "post_2"}
	again := channels.Reply{ID: "post_1", Text: "y"}
	if a.UUID() != again.UUID() || a.UUID() == b.UUID() {
		t.Errorf("got %s, then %s, and %s for another reply; want the first two equal", a.UUID(), again.UUID(), b.UUID())
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(b.UUID()) {
		t.Errorf("got %s, want a UUID of version 8", b.UUID())
	}
}

// covers: channels/159
func TestExcerpt(t *testing.T) {
	for want, r := range map[string]channels.Reply{
		"Hi.": {Outcome: "completed", Text: "Hi."}, "": {Outcome: "aborted", Text: "Hal"}, "Sorry, that went wrong. Please try again.": {Outcome: "failed"},
		"ééééé…": {Outcome: "completed", Text: "éééééééé"}, "Cut…": {Outcome: "completed", Text: "Cut", Truncated: true}, "Dra…": {Text: "Dra"},
	} {
		if got := r.Excerpt(6); got != want {
			t.Errorf("%+v: got %q, want %q", r, got, want)
		}
	}
}
