package whatsapp

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the maximum size of a message in UTF-16 code units.
const maxText = 4096

// transient replaces the code of an error that the platform marks as transient.
const transient = "transient"

// refusals classifies the platform's errors by number, because status 400 includes rate limits and 500
// includes missing permissions. The numbers are from excerpts of the error table that partners of the
// platform publish. Retry lists throttling (4, 80007, 80008, 130429, 131048, 131056), downtime (1, 2,
// 131000, 131016, 133004) and maintenance (131057); Permanent lists 3, a missing permission.
var refusals = channels.Refusals{
	Code: func(body []byte) (string, time.Duration) {
		var answer struct {
			Error struct {
				Code      json.Number `json:"code"`
				Transient bool        `json:"is_transient"`
			} `json:"error"`
		}
		_ = json.Unmarshal(body, &answer) // a body that is not JSON has no code
		if answer.Error.Transient {
			return transient, 0
		}
		return answer.Error.Code.String(), 0
	},
	Retry:     []string{transient, "1", "2", "4", "80007", "80008", "130429", "131000", "131016", "131048", "131056", "131057", "133004"},
	Permanent: []string{"3"},
}

type outgoing struct {
	Product   string `json:"messaging_product"`
	Recipient string `json:"recipient_type"`
	To        string `json:"to"`
	Type      string `json:"type"`
	Text      struct {
		Body string `json:"body"`
	} `json:"text"`
}

// Replies sends replies to the recipients of conversations named by [InstanceID]. The URL of the API
// includes its version, such as https://graph.example.com/v1.0. A long reply continues in further
// messages. The platform accepts no message id, so a retry after a lost response sends the message
// twice.
func Replies(api channels.API) outbox.Target {
	api.Refusals = refusals
	return channels.PartReplies(maxText, channels.UTF16, func(ctx context.Context, r channels.Reply, text string) error {
		to, err := ParseInstanceID(r.Address)
		if err != nil {
			return &outbox.GoneError{Err: err}
		}
		out := outgoing{Product: "whatsapp", Recipient: "individual", To: to.ID, Type: "text"}
		if to.Type == TypeGroup {
			out.Recipient = "group"
		}
		out.Text.Body = text
		return api.Call(ctx, "/"+url.PathEscape(to.PhoneNumber)+"/messages", r.ID, out, nil)
	})
}
