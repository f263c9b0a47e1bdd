package twilio

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the maximum size of a message in UTF-16 code units.
const maxText = 1600

// refusals classifies the platform's errors, which have a status and a number. Retry lists the
// temporary ones of the platform's error dictionary. They are limits of rates and queues (14107,
// 20429, 21611, 30001, 63017, 63018, 63038), and a temporarily unavailable service (20503).
var refusals = channels.Refusals{
	Code: func(body []byte) (string, time.Duration) {
		var answer struct {
			Code json.Number `json:"code"`
		}
		_ = json.Unmarshal(body, &answer) // a body that is not JSON has no code
		if answer.Code == "0" {
			return "", 0
		}
		return answer.Code.String(), 0
	},
	Retry: []string{"14107", "20429", "20503", "21611", "30001", "63017", "63018", "63038"},
}

// Replies sends replies to the participants of conversations named by [InstanceID]. The API needs the
// account's token; its URL defaults to https://api.twilio.com/2010-04-01. A long reply continues in
// further messages. The platform accepts no message id, so a retry after a lost response sends the
// message twice.
func Replies(api channels.API) outbox.Target {
	api.URL = cmp.Or(api.URL, "https://api.twilio.com/2010-04-01")
	api.Refusals = refusals
	return channels.PartReplies(maxText, channels.UTF16, func(ctx context.Context, r channels.Reply, text string) error {
		to, err := ParseInstanceID(r.Address)
		if err != nil {
			return &outbox.GoneError{Err: err}
		}
		form := url.Values{"To": {to.Participant}, "Body": {text}, "From": {to.Address}}
		if to.Address == "" {
			delete(form, "From")
			form.Set("MessagingServiceSid", to.MessagingService)
		}
		api := api
		api.User = to.Account
		return api.Call(ctx, "/Accounts/"+url.PathEscape(to.Account)+"/Messages.json", r.ID, form, nil)
	})
}
