package messenger

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the longest text of a message, in characters.
const maxText = 4096

// Replies is the target that brings replies to the chats that their conversations are named after by [InstanceID],
// and edits them while they are being said. The methods of the platform are below the URL of the API; a token that is
// part of the URL needs no other.
func Replies(api channels.API) outbox.Target {
	return channels.StreamedReplies(&messages{api}, maxText)
}

// messages implements [channels.Messages] by sendMessage and editMessageText.
type messages struct{ api channels.API }

// outgoing is what both take.
type outgoing struct {
	ChatID   int64  `json:"chat_id"`
	Thread   int64  `json:"message_thread_id,omitempty"`
	Topic    int64  `json:"direct_messages_topic_id,omitempty"`
	Business string `json:"business_connection_id,omitempty"`
	Message  int64  `json:"message_id,omitempty"` // that is edited
	Text     string `json:"text"`
}

// posted is what they answer.
type posted struct {
	Result struct {
		Message int64  `json:"message_id"`
		Text    string `json:"text"`
	} `json:"result"`
	Code        int    `json:"error_code"`
	Description string `json:"description"`
}

// Post implements [channels.Messages].
func (m *messages) Post(ctx context.Context, r channels.Reply, text string) (message, shown string, err error) {
	p, err := m.call(ctx, "/sendMessage", r, outgoing{Text: text})
	return strconv.FormatInt(p.Result.Message, 10), cmp.Or(p.Result.Text, text), err
}

// Edit implements [channels.Messages].
func (m *messages) Edit(ctx context.Context, r channels.Reply, message, text string) error {
	id, err := strconv.ParseInt(message, 10, 64)
	if err != nil {
		return err
	}
	p, err := m.call(ctx, "/editMessageText", r, outgoing{Text: text, Message: id})
	if strings.Contains(p.Description, "message is not modified") {
		return nil
	}
	return err
}

func (m *messages) call(ctx context.Context, method string, r channels.Reply, out outgoing) (p posted, err error) {
	to, err := ParseInstanceID(r.InstanceID)
	if err != nil {
		return p, &outbox.GoneError{Err: err}
	}
	out.ChatID, out.Business = to.ChatID, to.BusinessConnectionID
	if out.Message == 0 {
		out.Thread, out.Topic = to.MessageThreadID, to.DirectMessagesTopicID
	}
	err = m.api.Call(ctx, method, r.ID, out, &p)
	if err != nil && p.Code == http.StatusForbidden { // who is there wants no more
		err = &outbox.GoneError{Err: err}
	}
	return p, err
}
