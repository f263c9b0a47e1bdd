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

// maxText is the maximum size of an editable message, in the unit of [messages.Size]. A posted message
// may be longer, but chat.update rejects it with msg_too_long.
const maxText = 4000

// refusals classifies the platform's errors, which have status 200 and a code. Retry lists the
// temporary errors documented for chat.postMessage and chat.update: rate limits, faults of the
// platform, and migrations of a workspace or channel. Any other code is permanent.
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

// uneditable lists the error codes of deleted or no longer editable messages.
var uneditable = []string{"cant_update_message", "edit_window_closed", "message_not_found"}

// Replies sends replies to the threads named by [InstanceID], and edits them while the answer grows.
// The API needs the bot's token; its URL defaults to https://slack.com/api. A long reply continues in
// further messages. Texts are escaped, so that a model cannot mention users.
func Replies(api channels.API) outbox.Target {
	api.URL = cmp.Or(api.URL, "https://slack.com/api")
	api.Refusals = refusals
	return channels.StreamedReplies(&messages{api}, maxText)
}

// escape makes the platform show a text literally, without mentions, channel links and labeled links.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// messages implements [channels.Messages] with chat.postMessage and chat.update.
type messages struct{ api channels.API }

type outgoing struct {
	Channel     string `json:"channel"`
	ThreadTS    string `json:"thread_ts,omitempty"`
	TS          string `json:"ts,omitempty"` // message to edit
	Text        string `json:"text"`
	ClientMsgID string `json:"client_msg_id,omitempty"` // deduplicates messages
}

type posted struct {
	OK      bool   `json:"ok"`
	Error   string `json:"error"`
	TS      string `json:"ts"`
	Message struct {
		Text string `json:"text"`
	} `json:"message"`
}

// Size implements [channels.Sized]. The platform counts escapes.
func (*messages) Size(text string) int { return channels.UTF16(escape.Replace(text)) }

func (m *messages) Post(ctx context.Context, r channels.Reply, text string) (message, shown string, err error) {
	p, err := m.call(ctx, "/chat.postMessage", r, outgoing{Text: text, ClientMsgID: r.UUID()})
	return p.TS, cmp.Or(p.Message.Text, text), err
}

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
		err = errors.New("invalid response: neither ok nor an error")
	}
	return p, err
}
