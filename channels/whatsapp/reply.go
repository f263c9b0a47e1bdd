package whatsapp

import (
	"context"
	"net/url"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the longest text of a message, in characters.
const maxText = 4096

// outgoing is a message of text.
type outgoing struct {
	Product   string `json:"messaging_product"`
	Recipient string `json:"recipient_type"`
	To        string `json:"to"`
	Type      string `json:"type"`
	Text      struct {
		Body string `json:"body"`
	} `json:"text"`
}

// Replies is the target that sends replies to those whom conversations are named after by [InstanceID]. The URL of
// the API has its version, such as https://graph.example.com/v1.0. The platform takes no id: a reply that is sent
// again, since its answer was lost, comes twice.
func Replies(api channels.API) outbox.Target {
	return channels.Replies(func(ctx context.Context, r channels.Reply) error {
		to, err := ParseInstanceID(r.InstanceID)
		if err != nil {
			return &outbox.GoneError{Err: err}
		}
		out := outgoing{Product: "whatsapp", Recipient: "individual", To: to.ID, Type: "text"}
		if to.Type == TypeGroup {
			out.Recipient = "group"
		}
		if out.Text.Body = r.Words(maxText); out.Text.Body == "" {
			return nil
		}
		return api.Call(ctx, "/"+url.PathEscape(to.PhoneNumber)+"/messages", r.ID, out, nil)
	})
}
