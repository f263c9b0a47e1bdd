package messenger

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/outbox"
)

// maxText is the longest text of a message, in UTF-16.
const maxText = 4096

// refusals is how the platform words errors: by a status and a description, of which the part before the colon repeats
// the status. Of the descriptions that clients of the platform list, those with 4xx are permanent but for 429, which has
// the wait in its parameters.
var refusals = channels.Refusals{
	Code: func(body []byte) (string, time.Duration) {
		var p posted
		if json.Unmarshal(body, &p) != nil {
			return "", 0
		}
		_, detail, _ := strings.Cut(p.Description, ": ")
		return cmp.Or(detail, p.Description), time.Duration(p.Parameters.RetryAfter) * time.Second
	},
}

// uneditable are the codes of a message that is deleted, or can be edited no longer.
var uneditable = []string{"message can't be edited", "message to edit not found", "MESSAGE_ID_INVALID"}

// Replies is the target that brings replies to the chats that their conversations are named after by [InstanceID],
// and edits them while they are being said. The methods of the platform are below the URL of the API; a token that is
// part of the URL needs no other. What is longer than a message goes on in further ones. A group that has become a
// supergroup, of another id, is followed.
func Replies(api channels.API) outbox.Target {
	api.Refusals = refusals
	return channels.StreamedReplies(&messages{api: api, moved: map[int64]int64{}}, maxText)
}

// maxMoved bounds how many groups are known to have moved. The platform names the new id of another again.
const maxMoved = 1024

// messages implements [channels.Messages] by sendMessage and editMessageText.
type messages struct {
	api channels.API

	mu    sync.Mutex
	moved map[int64]int64 // ids of groups that have become supergroups, and their new ids
}

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
	Description string `json:"description"`
	Parameters  struct {
		MigrateTo  int64 `json:"migrate_to_chat_id"`
		RetryAfter int64 `json:"retry_after"` // seconds
	} `json:"parameters"`
}

// Size implements [channels.Sized].
func (*messages) Size(text string) int { return channels.UTF16(text) }

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
	switch code := channels.CodeOf(err); {
	case strings.Contains(code, "message is not modified"):
		return nil
	case slices.Contains(uneditable, code), p.Parameters.MigrateTo != 0: // messages have other ids there
		return channels.ErrNoMessage
	}
	return err
}

// call calls a method for the chat of a reply, and a second time if that has moved.
func (m *messages) call(ctx context.Context, method string, r channels.Reply, out outgoing) (p posted, err error) {
	to, err := ParseInstanceID(r.Address)
	if err != nil {
		return p, &outbox.GoneError{Err: err}
	}
	out.ChatID, out.Business = m.chat(to.ChatID), to.BusinessConnectionID
	if out.Message == 0 {
		out.Thread, out.Topic = to.MessageThreadID, to.DirectMessagesTopicID
	}
	err = m.api.Call(ctx, method, r.ID, out, &p)
	if moved := p.Parameters.MigrateTo; err != nil && moved != 0 && out.ChatID == to.ChatID {
		m.follow(to.ChatID, moved)
		if out.Message != 0 {
			return p, err
		}
		out.ChatID, p = moved, posted{}
		err = m.api.Call(ctx, method, r.ID, out, &p)
	}
	return p, err
}

// chat returns the id that a chat has now.
func (m *messages) chat(id int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return cmp.Or(m.moved[id], id)
}

func (m *messages) follow(id, moved int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.moved) >= maxMoved {
		clear(m.moved)
	}
	m.moved[id] = moved
}
