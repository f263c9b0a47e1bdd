package twilio_test

import (
	"net/url"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/twilio"
)

// covers: channels/163, channels/179
func TestTwilioReplies(t *testing.T) {
	channeltest.Replies(t, twilio.Replies, map[string]channeltest.Reply{
		"a number":           {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 200, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"a service":          {Instance: "twilio:v1:account:AC:messaging-service:MG:participant:1", Outcome: "completed", Status: 200, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&MessagingServiceSid=MG&To=1`},
		"an error":           {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 500, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"redirected":         {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 307, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"invalid":            {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 400, Answer: `{"code":21211,"message":"of a caller","status":400}`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`, Gone: true},
		"unsubscribed":       {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 400, Answer: `{"code":21610}`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`, Gone: true},
		"no account":         {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 401, Answer: `{"code":20003}`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`, Gone: true},
		"a full queue":       {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 400, Answer: `{"code":21611}`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"a day's limit":      {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 400, Answer: `{"code":63038}`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"a shared rate":      {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 400, Answer: `{"code":63017}`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"a limit":            {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 429, Answer: `{"code":20429}`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"of a proxy":         {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 502, Answer: `<html>`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"of a strange proxy": {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 200, Answer: `<html>`, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"of another":         {Instance: "slack:v1:T:C:1", Outcome: "completed", Gone: true},
		"was aborted":        {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "aborted", Status: 200},
	})
}

// covers: channels/177
func TestTwilioLongReplies(t *testing.T) {
	channeltest.LongReplies(t, twilio.Replies, channeltest.Long{
		Instance: "twilio:v1:account:AC:address:2:participant:1", Answer: "{}", Most: 1600, Size: channels.UTF16,
		Text: func(body []byte) string {
			form, err := url.ParseQuery(string(body))
			if err != nil {
				t.Error(err)
			}
			return form.Get("Body")
		},
	})
}
