package slack_test

import (
	"encoding/json"
	"html"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/slack"
)

const (
	thread = "slack:v1:T:C:1.2"
	posted = `/chat.postMessage Bearer of-the-bot {"channel":"C","thread_ts":"1.2","text":"Hi \u0026amp; bye.","client_msg_id":"` + clientID + `"}`
	// clientID is derived from the submission id.
	clientID = "13a076fc-e7d1-8541-8cc5-f004c44c1061"
)

// covers: channels/179, channels/181
func TestSlackReplies(t *testing.T) {
	cases := map[string]channeltest.Reply{
		"a thread":    {Instance: thread, Outcome: "completed", Status: 200, Answer: `{"ok":true,"ts":"9.1","message":{"text":"Hi &amp; bye."}}`, Want: posted},
		"no JSON":     {Instance: thread, Outcome: "completed", Status: 200, Answer: `<html>`, Want: posted, Failed: true},
		"neither":     {Instance: thread, Outcome: "completed", Status: 200, Answer: `{}`, Want: posted, Failed: true},
		"of a proxy":  {Instance: thread, Outcome: "completed", Status: 502, Want: posted},
		"of another":  {Instance: "messenger:v1:regular:chat:1:thread::direct:", Outcome: "completed", Gone: true},
		"was aborted": {Instance: thread, Outcome: "aborted", Status: 200},
	}
	for _, code := range []string{
		"not_in_channel", "account_inactive", "token_revoked", "invalid_auth", "channel_not_found", "is_archived", "msg_too_long", "restricted_action", "accesslimited",
		"ekm_access_denied", "missing_scope", "token_expired", "of_tomorrow",
	} {
		cases[code] = channeltest.Reply{Instance: thread, Outcome: "completed", Status: 200, Answer: `{"ok":false,"error":"` + code + `"}`, Want: posted, Failed: true, Gone: true}
	}
	for _, code := range []string{"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "org_login_required", "team_added_to_org"} {
		cases[code] = channeltest.Reply{Instance: thread, Outcome: "completed", Status: 200, Answer: `{"ok":false,"error":"` + code + `"}`, Want: posted, Failed: true}
	}
	channeltest.Replies(t, slack.Replies, cases)
}

func textOf(t *testing.T, body []byte) string {
	var m struct{ Text string }
	if err := json.Unmarshal(body, &m); err != nil {
		t.Error(err)
	}
	if strings.ContainsAny(m.Text, "<>") {
		t.Errorf("got %.200q, want mentions escaped", m.Text)
	}
	return html.UnescapeString(m.Text)
}

// covers: channels/177, channels/181
func TestSlackLongReplies(t *testing.T) {
	channeltest.LongReplies(t, slack.Replies, channeltest.Long{
		Instance: thread, Text: func(body []byte) string { return textOf(t, body) }, Answer: `{"ok":true,"ts":"9.1"}`, Most: 4000,
		Size: func(text string) int {
			return channels.UTF16(strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text))
		},
	})
}
