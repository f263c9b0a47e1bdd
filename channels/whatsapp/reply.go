package whatsapp

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the longest text of a message, in UTF-16.
const maxText = 4096

// transient is the code of an error that the platform calls so, whatever its number.
const transient = "transient"

// refusals is how the platform words errors: by a number, with a status that is 400 for limits and 500 for missing
// permissions, too. The numbers are from excerpts of the table of error codes as partners of the platform publish it: Retry has throttling (4, 80007, 80008,
// 130429, 131048, 131056), downtime (1, 2, 131000, 131016, 133004) and maintenance (131057); Permanent has 3, a missing
// permission.
var refusals = channels.Refusals{
	Code: func(body []byte) (string, time.Duration) {
		var answer struct {
			Error struct {
				Code      json.Number `json:"code"`
				Transient bool        `json:"is_transient"`
			} `json:"error"`
		}
		_ = json.Unmarshal(body, &answer) // an answer that is no JSON has no code
		if answer.Error.Transient {
			return transient, 0
		}
		return answer.Error.Code.String(), 0
	},
	Retry:     []string{transient, "1", "2", "4", "80007", "80008", "130429", "131000", "131016", "131048", "131056", "131057", "133004"},
	Permanent: []string{"3"},
}

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
// the API has its version, such as https://graph.example.com/v1.0. What is longer than a message goes on in further
// ones. The platform takes no id: a message that is sent again, since its answer was lost, comes twice.
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
