package messenger_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/outbox"
)

const (
	chat  = "messenger:v1:regular:chat:-5:thread::direct:"
	sent  = `/sendMessage Bearer of-the-bot {"chat_id":-5,"text":"Hi \u0026 bye."}`
	taken = `{"ok":true,"result":{"message_id":7}}`
)

// covers: channels/179
func TestMessengerReplies(t *testing.T) {
	cases := map[string]channeltest.Reply{
		"a chat":     {Instance: chat, Outcome: "completed", Status: 200, Answer: taken, Want: sent},
		"a topic":    {Instance: "messenger:v1:regular:chat:-5:thread:3:direct:", Outcome: "completed", Status: 200, Answer: taken, Want: `/sendMessage Bearer of-the-bot {"chat_id":-5,"message_thread_id":3,"text":"Hi \u0026 bye."}`},
		"of another": {Instance: thread, Outcome: "completed", Gone: true},
	}
	for status, descriptions := range map[int][]string{
		400: {"Bad Request: chat not found", "Bad Request: message thread not found", "Bad Request: message is too long"},
		401: {"Unauthorized"}, 403: {"Forbidden: bot was blocked by the user"}, 404: {"Not Found"},
		429: {"Too Many Requests: retry after 7"}, 500: {"Internal Server Error"}, 502: {"Bad Gateway"},
	} {
		for _, d := range descriptions {
			answer := `{"ok":false,"error_code":` + strconv.Itoa(status) + `,"description":"` + d + `"}`
			cases[d] = channeltest.Reply{Instance: chat, Outcome: "completed", Status: status, Answer: answer, Want: sent, Gone: status < 429}
		}
	}
	channeltest.Replies(t, messenger.Replies, cases)
}

const thread = "slack:v1:T:C:1.2"

// covers: channels/177
func TestMessengerLongReplies(t *testing.T) {
	channeltest.LongReplies(t, messenger.Replies, channeltest.Long{
		Instance: chat, Answer: taken, Most: 4096, Size: channels.UTF16,
		Text: func(body []byte) string {
			var m struct{ Text string }
			if err := json.Unmarshal(body, &m); err != nil {
				t.Error(err)
			}
			return m.Text
		},
	})
}

// TestMessengerMovedGroup verifies that replies follow a group to its supergroup id, and that the
// retry delay in the body is used.
// covers: channels/180
func TestMessengerMovedGroup(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Chat    int64  `json:"chat_id"`
			Message int64  `json:"message_id"`
			Text    string `json:"text"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		got = append(got, r.URL.Path+" "+strconv.FormatInt(call.Chat, 10)+" "+call.Text)
		switch {
		case call.Chat == -5 && len(got) > 1:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-100}}`)
		case call.Text == "third":
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}`)
		default:
			_, _ = io.WriteString(w, taken)
		}
	}))
	defer server.Close()
	target := messenger.Replies(channels.API{URL: server.URL})
	deliver := func(sub, text string) error {
		body := `{"type":"submission.settled","data":{"agent":"a","id":"` + chat + `","submissionId":"` + sub + `","outcome":"completed","text":"` + text + `"}}`
		return target.Deliver(t.Context(), outbox.Post{ID: "post_1", Channel: "bot", Body: []byte(body)})
	}
	live, ok := target.(outbox.Live)
	if !ok {
		t.Fatalf("got %T, want a target that shows drafts", target)
	}
	draft := outbox.Draft{Channel: "bot", Submission: "sub_1", Text: "fir"}
	draft.From.ID = chat
	if err := live.Show(t.Context(), draft); err != nil {
		t.Errorf("a draft: got %v, want none", err)
	}
	for _, sub := range []string{"first", "second"} {
		if err := deliver(map[string]string{"first": "sub_1", "second": "sub_2"}[sub], sub); err != nil {
			t.Errorf("%s: got %v, want none", sub, err)
		}
	}
	want := []string{"/sendMessage -5 fir…", "/editMessageText -5 first", "/sendMessage -100 first", "/sendMessage -100 second"}
	if !slices.Equal(got, want) {
		t.Errorf("got calls %q, want %q", got, want)
	}
	if later := (*outbox.LaterError)(nil); !errors.As(deliver("sub_3", "third"), &later) || later.After.Seconds() != 7 {
		t.Errorf("got %v, want a wait of 7 s", later)
	}
}
