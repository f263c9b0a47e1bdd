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
	"github.com/parleyrun/parley/outbox"
)

// Reply is a notice of a settlement with the text "Hi & bye.", and what comes of it.
type Reply struct {
	Instance, Outcome string
	Status            int    // of the platform's answer, which also names another place
	Want              string // path, credentials and body of the call; "" is none
	Gone              bool   // the outbox is told to try no more
}

// Replies holds a target of the outbox to what a platform is called with, what it is not called for, and what the
// outbox is told. The target's token is "of-the-bot".
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
		}))
		target := replies(channels.API{URL: server.URL, Token: "of-the-bot"})
		err := target.Deliver(t.Context(), outbox.Post{ID: "post_1", Channel: "bot", Body: fmt.Appendf(nil, notice, c.Instance, c.Outcome)})
		server.Close()
		var gone *outbox.GoneError
		switch {
		case got != c.Want:
			t.Errorf("%s: called %q, want %q", name, got, c.Want)
		case (err == nil) != (c.Status == http.StatusOK) || errors.As(err, &gone) != c.Gone:
			t.Errorf("%s: %v", name, err)
		case err != nil && (strings.Contains(err.Error(), server.URL) || strings.Contains(err.Error(), "of-the-bot")):
			t.Errorf("%s: it tells a secret: %v", name, err)
		}
	}
}
