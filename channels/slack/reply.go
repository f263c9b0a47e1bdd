package slack

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the longest text of a message, in characters.
const maxText = 40000

// Replies is the target that brings replies to the threads that their conversations are named after by
// [InstanceID], and edits them while they are being said. The API has the token of the bot; its URL is by default
// https://slack.com/api.
func Replies(api channels.API) outbox.Target {
	api.URL = cmp.Or(api.URL, "https://slack.com/api")
	return channels.StreamedReplies(&messages{api}, maxText)
}

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

// gone are the errors of a chat that nobody can write to any more.
var gone = []string{"channel_not_found", "is_archived", "thread_not_found"}

// Post implements [channels.Messages].
func (m *messages) Post(ctx context.Context, r channels.Reply, text string) (message, shown string, err error) {
	p, err := m.call(ctx, "/chat.postMessage", r, outgoing{Text: text, ClientMsgID: r.UUID()})
	return p.TS, cmp.Or(p.Message.Text, text), err
}

// Edit implements [channels.Messages].
func (m *messages) Edit(ctx context.Context, r channels.Reply, message, text string) error {
	_, err := m.call(ctx, "/chat.update", r, outgoing{Text: text, TS: message})
	return err
}

func (m *messages) call(ctx context.Context, method string, r channels.Reply, out outgoing) (p posted, err error) {
	to, err := ParseInstanceID(r.InstanceID)
	if err != nil {
		return p, &outbox.GoneError{Err: err}
	}
	out.Channel = to.Channel
	if out.TS == "" {
		out.ThreadTS = to.ThreadTS
	}
	err = m.api.Call(ctx, method, r.ID, out, &p)
	switch {
	case err != nil || p.OK:
		return p, err
	case slices.Contains(gone, p.Error):
		return p, &outbox.GoneError{Err: errors.New(p.Error)}
	}
	return p, errors.New(cmp.Or(p.Error, "it answered neither ok nor an error"))
}
