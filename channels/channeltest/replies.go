package channeltest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// Reply is a test case: the platform's response to the reply "Hi & bye.", and the expected outcome.
type Reply struct {
	Instance, Outcome string
	Status            int    // status of the platform's response, which also contains a Location
	Answer            string // body of the platform's response
	Want              string // path, credentials and body of the call; "" if none
	Gone              bool   // the error is a GoneError
	Failed            bool   // the call fails with any status
}

// Replies verifies the platform calls and the errors of a reply target. The target's token is
// "of-the-bot".
func Replies(t *testing.T, replies func(channels.API) outbox.Target, cases map[string]Reply) {
	t.Helper()
	const notice = `{"type":"submission.settled","data":{"agent":"a","id":%q,"submissionId":"sub_1","outcome":%q,"text":"Hi & bye."}}`
	for name, c := range cases {
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			credentials := r.Header.Get("Authorization")
			if user, password, ok := r.BasicAuth(); ok {
				credentials = user + ":" + password
			}
			got = r.URL.Path + " " + credentials + " " + string(body)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.Status)
			_, _ = io.WriteString(w, c.Answer)
		}))
		target := replies(channels.API{URL: server.URL, Token: "of-the-bot"})
		err := target.Deliver(t.Context(), outbox.Post{ID: "post_1", Channel: "bot", Body: fmt.Appendf(nil, notice, c.Instance, c.Outcome)})
		server.Close()
		var gone *outbox.GoneError
		switch {
		case got != c.Want:
			t.Errorf("%s: got calls %q, want %q", name, got, c.Want)
		case (err == nil) != (c.Status == http.StatusOK && !c.Failed) || errors.As(err, &gone) != c.Gone:
			t.Errorf("%s: %v", name, err)
		case err != nil && (strings.Contains(err.Error(), server.URL) || strings.Contains(err.Error(), "of-the-bot")):
			t.Errorf("%s: error contains a secret: %v", name, err)
		}
	}
}

// Long describes a platform's calls for a reply that exceeds the maximum message size.
type Long struct {
	Instance string
	// Text extracts the visible text from the body of a call. Edits repeat the visible text.
	Text func(body []byte) string
	// Answer is the platform's response to a successful call.
	Answer string
	// Most is the maximum size of a text, in the unit of Size.
	Most int
	Size func(text string) int
}

// LongReplies verifies that a long reply arrives complete, in order, and in messages that fit. A
// failed message is retried without the messages before it.
func LongReplies(t *testing.T, replies func(channels.API) outbox.Target, l Long) {
	t.Helper()
	var want strings.Builder
	for i := range 700 {
		fmt.Fprintf(&want, "%d & <@U%d> 😀 words\n", i, i)
	}
	var got []string
	calls, fail := 0, 2
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if calls++; calls == fail {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		got = append(got, l.Text(body))
		_, _ = io.WriteString(w, l.Answer)
	}))
	defer server.Close()
	target := replies(channels.API{URL: server.URL, Token: "of-the-bot"})
	notice, err := conversation.EncodeJSON(conversation.Notice{Type: conversation.NoticeSettled, Data: conversation.NoticeData{
		Agent: "a", ID: l.Instance, SentReply: &conversation.SentReply{Submission: "sub_1", Outcome: conversation.OutcomeCompleted, Text: want.String()},
	}})
	if err != nil {
		t.Fatal(err)
	}
	post := outbox.Post{ID: "post_1", Channel: "bot", Body: notice}
	if err := target.Deliver(t.Context(), post); err == nil {
		t.Error("failed message: got no error, want one")
	}
	if err := target.Deliver(t.Context(), post); err != nil {
		t.Errorf("second attempt: got error %v, want none", err)
	}
	for _, part := range got {
		if n := l.Size(part); n > l.Most {
			t.Errorf("got a message of %d, want at most %d: %.100q", n, l.Most, part)
		}
	}
	if whole := strings.Join(got, "\n"); len(got) < 2 || strings.TrimSpace(whole) != strings.TrimSpace(want.String()) {
		t.Errorf("got %d messages with %d bytes %.200q, want the %d bytes of the reply once, in order", len(got), len(whole), whole, want.Len())
	}
}
