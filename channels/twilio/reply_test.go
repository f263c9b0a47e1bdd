package twilio_test

import (
	"testing"

	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/twilio"
)

func TestTwilioReplies(t *testing.T) {
	channeltest.Replies(t, twilio.Replies, map[string]channeltest.Reply{
		"a number":    {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 200, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"a service":   {Instance: "twilio:v1:account:AC:messaging-service:MG:participant:1", Outcome: "completed", Status: 200, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&MessagingServiceSid=MG&To=1`},
		"an error":    {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 500, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"redirected":  {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "completed", Status: 307, Want: `/Accounts/AC/Messages.json AC:of-the-bot Body=Hi+%26+bye.&From=2&To=1`},
		"of another":  {Instance: "slack:v1:T:C:1", Outcome: "completed", Gone: true},
		"was aborted": {Instance: "twilio:v1:account:AC:address:2:participant:1", Outcome: "aborted", Status: 200},
	})
}
