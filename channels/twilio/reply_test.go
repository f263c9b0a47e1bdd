package twilio_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/twilio"
	"github.com/parleyrun/parley/outbox"
)

// TestTwilioReplies: what the platform is called with, what it is not called for, and what the outbox is told.
func TestTwilioReplies(t *testing.T) {
	const notice = `{"type":"submission.settled","data":{"agent":"a","id":%q,"submissionId":"sub_1","outcome":%q,"text":"Hi & bye."}}`
	for name, c := range map[string]struct {
		instance, outcome string
		status            int
		want              string // "" is no call
		gone              bool
	}{
		"a number":    {"twilio:v1:account:AC:address:2:participant:1", "completed", 200, `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`, false},
		"a service":   {"twilio:v1:account:AC:messaging-service:MG:participant:1", "completed", 200, `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&MessagingServiceSid=MG&To=1`, false},
		"an error":    {"twilio:v1:account:AC:address:2:participant:1", "completed", 500, `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`, false},
		"redirected":  {"twilio:v1:account:AC:address:2:participant:1", "completed", 307, `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`, false},
		"of another":  {"slack:v1:T:C:1", "completed", 0, "", true},
		"was aborted": {"twilio:v1:account:AC:address:2:participant:1", "aborted", 200, "", false},
	} {
		var got string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			got = r.URL.Path + " " + userOf(r) + " " + string(body)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
		}))
		target := twilio.Replies(channels.API{URL: server.URL, Token: "of-the-bot"})
		err := target.Deliver(t.Context(), outbox.Post{ID: "post_1", Body: []byte(fmt.Sprintf(notice, c.instance, c.outcome))})
		server.Close()
		var gone *outbox.GoneError
		switch {
		case got != c.want:
			t.Errorf("%s: called %q, want %q", name, got, c.want)
		case (err == nil) != (c.status == 200) || errors.As(err, &gone) != c.gone:
			t.Errorf("%s: %v", name, err)
		case err != nil && (strings.Contains(err.Error(), server.URL) || strings.Contains(err.Error(), "of-the-bot")):
			t.Errorf("%s: it tells a secret: %v", name, err)
		}
	}
}

func userOf(r *http.Request) string {
	user, password, _ := r.BasicAuth()
	return user + ":" + password
}
