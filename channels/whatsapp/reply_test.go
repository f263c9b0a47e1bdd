package whatsapp_test

import (
	"encoding/json"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/whatsapp"
)

// covers: channels/163, channels/179
func TestWhatsAppReplies(t *testing.T) {
	channeltest.Replies(t, whatsapp.Replies, map[string]channeltest.Reply{
		"somebody":       {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 200, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"a group":        {Instance: "whatsapp:v1:business-account:B:phone-number:N:group:G", Outcome: "completed", Status: 200, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"group","to":"G","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"an error":       {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 500, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"redirected":     {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 307, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"too late":       {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 400, Answer: `{"error":{"code":131047}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`, Gone: true},
		"no token":       {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 401, Answer: `{"error":{"code":190}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`, Gone: true},
		"a limit":        {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 400, Answer: `{"error":{"code":130429}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"no permission":  {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 500, Answer: `{"error":{"code":3}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`, Gone: true},
		"many calls":     {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 400, Answer: `{"error":{"code":80008}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"a pair's limit": {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 400, Answer: `{"error":{"code":131056}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"transient":      {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 400, Answer: `{"error":{"code":99,"is_transient":true}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`},
		"no number":      {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "completed", Status: 404, Answer: `{"error":{"code":"x"}}`, Want: `/N/messages Bearer of-the-bot {"messaging_product":"whatsapp","recipient_type":"individual","to":"49","type":"text","text":{"body":"Hi \u0026 bye."}}`, Gone: true},
		"of another":     {Instance: "slack:v1:T:C:1", Outcome: "completed", Gone: true},
		"was aborted":    {Instance: "whatsapp:v1:business-account:B:phone-number:N:individual:phone-number:49", Outcome: "aborted", Status: 200},
	})
}

// covers: channels/177
func TestWhatsAppLongReplies(t *testing.T) {
	channeltest.LongReplies(t, whatsapp.Replies, channeltest.Long{
		Instance: "whatsapp:v1:business-account:B:phone-number:N:group:G", Answer: "{}", Most: 4096, Size: channels.UTF16,
		Text: func(body []byte) string {
			var m struct{ Text struct{ Body string } }
			if err := json.Unmarshal(body, &m); err != nil {
				t.Error(err)
			}
			return m.Text.Body
		},
	})
}
