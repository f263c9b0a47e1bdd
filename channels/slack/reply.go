package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the longest text of a message that can be edited, as [messages.Size] measures it. A message that is
// posted may be longer, but chat.update refuses such a text by msg_too_long.
const maxText = 4000

// refusals is how the platform words errors: by 200 and a code. Retry lists those of the errors documented for
// chat.postMessage and chat.update that pass: limits, faults of the platform, and migrations of a workspace or channel.
// A code that is not listed is permanent.
var refusals = channels.Refusals{
	Code: func(body []byte) (string, time.Duration) {
		var p posted
		if json.Unmarshal(body, &p) != nil || p.OK {
			return "", 0
		}
		return p.Error, 0
	},
	Retry: []string{
		"external_channel_migrating", "fatal_error", "internal_error", "message_limit_exceeded", "org_login_required", "rate_limited",
		"ratelimited", "request_timeout", "service_unavailable", "streaming_state_conflict", "team_added_to_org", "update_failed",
	},
}

// uneditable are the codes of a message that is deleted, or can be edited no longer.
var uneditable = []string{"cant_update_message", "edit_window_closed", "message_not_found"}

// Replies is the target that brings replies to the threads that their conversations are named after by
// [InstanceID], and edits them while they are being said. The API has the token of the bot; its URL is by default
// https://slack.com/api. What is longer than a message goes on in further ones. Texts are escaped: a model mentions
// nobody.
func Replies(api channels.API) outbox.Target {
	api.URL = cmp.Or(api.URL, "https://slack.com/api")
	api.Refusals = refusals
	return channels.StreamedReplies(&messages{api}, maxText)
}

// escape has the platform show a text as it is, without mentions, channels and links of other labels.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// messages implements [channels.Messages] by chat.postMessage and chat.update.
type messages struct{ api channels.API }

// outgoing is what both take.
type outgoing struct {
	Channel     string `json:"channel"`
	ThreadTS    string `json:"thread_ts,omitempty"`
	TS          string `json:"ts,omitempty"` // of the message that is edited
	Text        string `json:"text"`
	ClientMsgID string `json:"client_msg_id,omitempty"` // one message under one id
}

// posted is what they answer.
type posted struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	TS      string `json:"ts"`
	Message struct {
		Text string `json:"text"`
	} `json:"message"`
}

// Size implements [channels.Sized]: the platform counts escapes.
func (*messages) Size(text string) int { return channels.UTF16(escape.Replace(text)) }

// Post implements [channels.Messages].
func (m *messages) Post(ctx context.Context, r channels.Reply, text string) (message, shown string, err error) {
	p, err := m.call(ctx, "/chat.postMessage", r, outgoing{Text: text, ClientMsgID: r.UUID()})
	return p.TS, cmp.Or(p.Message.Text, text), err
}

// Edit implements [channels.Messages].
func (m *messages) Edit(ctx context.Context, r channels.Reply, message, text string) error {
	_, err := m.call(ctx, "/chat.update", r, outgoing{Text: text, TS: message})
	if slices.Contains(uneditable, channels.CodeOf(err)) {
		return channels.ErrNoMessage
	}
	return err
}

func (m *messages) call(ctx context.Context, method string, r channels.Reply, out outgoing) (p posted, err error) {
	to, err := ParseInstanceID(r.Address)
	if err != nil {
		return p, &outbox.GoneError{Err: err}
	}
	out.Channel, out.Text = to.Channel, escape.Replace(out.Text)
	if out.TS == "" {
		out.ThreadTS = to.ThreadTS
	}
	if err = m.api.Call(ctx, method, r.ID, out, &p); err == nil && !p.OK {
		err = errors.New("it answered neither ok nor an error")
	}
	return p, err
}
