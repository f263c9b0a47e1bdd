package twilio

import (
	"cmp"
	"context"
	"net/url"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the longest text of a message, in characters.
const maxText = 1600

// Replies is the target that sends replies to the participants of conversations named by [InstanceID]. The Token of
// the API is that of the account; its URL is by default https://api.twilio.com/2010-04-01. The platform takes no id: a
// reply that is sent again, since its answer was lost, comes twice.
func Replies(api channels.API) outbox.Target {
	api.URL = cmp.Or(api.URL, "https://api.twilio.com/2010-04-01")
	return channels.Replies(func(ctx context.Context, r channels.Reply) error {
		to, err := ParseInstanceID(r.InstanceID)
		if err != nil {
			return &outbox.GoneError{Err: err}
		}
		text := r.Words(maxText)
		if text == "" {
			return nil
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
