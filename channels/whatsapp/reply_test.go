package whatsapp_test

import (
	"testing"

	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/whatsapp"
)

func TestWhatsAppReplies(t *testing.T) {
	channeltest.Replies(t, whatsapp.Replies, map[string]channeltest.Reply{
		"somebody":    {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 200, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"a group":     {Instance: "whatsapp:v1:business-account:B:phone-number:N:group:G", Outcome: "completed", Status: 200, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"group","to":"G","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"an error":    {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 500, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"redirected":  {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 307, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"of another":  {Instance: "slack:v1:T:C:1", Outcome: "completed", Gone: true},
		"was aborted": {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "aborted", Status: 200},
	})
}
