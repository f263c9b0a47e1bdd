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

// maxText is the maximum size of a message in UTF-16 code units.
const maxText = 4096

// refusals classifies the platform's errors, which have a status and a description whose part before
// the colon repeats the status. Among the descriptions that clients of the platform list, those of 4xx
// are permanent, except 429, which has the delay in its parameters.
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

// uneditable lists the error codes of deleted or no longer editable messages.
var uneditable = []string{"message can't be edited", "message to edit not found", "MESSAGE_ID_INVALID"}

// Replies sends replies to the chats named by [InstanceID], and edits them while the answer grows. API
// methods are below the URL of the API; if the token is part of the URL, leave Token empty. A long
// reply continues in further messages. If a group becomes a supergroup, replies go to its new id.
func Replies(api channels.API) outbox.Target {
	api.Refusals = refusals
	return channels.StreamedReplies(&messages{api: api, moved: map[int64]int64{}}, maxText)
}

// maxMoved limits the remembered supergroup ids. For an evicted one the platform returns the new id
// again.
const maxMoved = 1024

// messages implements [channels.Messages] with sendMessage and editMessageText.
type messages struct {
	api channels.API

	mu    sync.Mutex
	moved map[int64]int64 // new ids of groups that became supergroups
}

type outgoing struct {
	ChatID   int64  `json:"chat_id"`
	Thread   int64  `json:"message_thread_id,omitempty"`
	Topic    int64  `json:"direct_messages_topic_id,omitempty"`
	Business string `json:"business_connection_id,omitempty"`
	Message  int64  `json:"message_id,omitempty"` // message to edit
	Text     string `json:"text"`
}

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

func (*messages) Size(text string) int { return channels.UTF16(text) }

func (m *messages) Post(ctx context.Context, r channels.Reply, text string) (message, shown string, err error) {
	p, err := m.call(ctx, "/sendMessage", r, outgoing{Text: text})
	return strconv.FormatInt(p.Result.Message, 10), cmp.Or(p.Result.Text, text), err
}

func (m *messages) Edit(ctx context.Context, r channels.Reply, message, text string) error {
	id, err := strconv.ParseInt(message, 10, 64)
	if err != nil {
		return err
	}
	p, err := m.call(ctx, "/editMessageText", r, outgoing{Text: text, Message: id})
	switch code := channels.CodeOf(err); {
	case strings.Contains(code, "message is not modified"):
		return nil
	case slices.Contains(uneditable, code), p.Parameters.MigrateTo != 0: // message ids change with the migration
		return channels.ErrNoMessage
	}
	return err
}

// call calls a method for the chat of a reply, and again if the chat has moved.
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

// chat returns the current id of a chat.
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
