package messenger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Update is one update of the platform.
type Update struct {
	// ID orders updates. It is the same when the platform sends again.
	ID int64
	// Native is the update as received, with the platform's names and nesting. It must not be
	// modified.
	Native json.RawMessage

	members map[string]json.RawMessage
}

// Known lists the members of an update that the platform documents. An update has at most one. The
// channel delivers unknown ones, too.
func Known() []string {
	return []string{
		"message", "edited_message", "channel_post", "edited_channel_post", "business_connection", "business_message",
		"edited_business_message", "deleted_business_messages", "guest_message", "message_reaction",
		"message_reaction_count", "inline_query", "chosen_inline_result", "callback_query", "shipping_query",
		"pre_checkout_query", "purchased_paid_media", "poll", "poll_answer", "my_chat_member", "chat_member",
		"chat_join_request", "chat_boost", "removed_chat_boost", "managed_bot", "subscription",
	}
}

// Kind returns the known member of the update, or "". In the latter case use Native.
func (u Update) Kind() string {
	for _, kind := range Known() {
		if _, ok := u.members[kind]; ok {
			return kind
		}
	}
	return ""
}

// Message is the part of the platform's message that most bots need. Native has the rest.
type Message struct {
	ID                   int64  `json:"message_id"`
	Date                 int64  `json:"date"`
	Text                 string `json:"text"` // or the caption of media
	Caption              string `json:"caption"`
	Chat                 Chat   `json:"chat"`
	From                 *User  `json:"from"`
	SenderChat           *Chat  `json:"sender_chat"` // the chat on whose behalf it was sent
	SenderBusinessBot    *User  `json:"sender_business_bot"`
	IsAutomaticForward   bool   `json:"is_automatic_forward"`
	BusinessConnectionID string `json:"business_connection_id"`
	MessageThreadID      int64  `json:"message_thread_id"` // also set for reply threads that are not topics
	IsTopicMessage       bool   `json:"is_topic_message"`
	DirectMessagesTopic  *struct {
		TopicID int64 `json:"topic_id"`
	} `json:"direct_messages_topic"`
}

// Chat is the chat of a message.
type Chat struct {
	ID    int64  `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
}

// User is the author of a message.
type User struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	Username  string `json:"username"`
}

// Message returns the new or edited message of an update. It is nil for other updates, including
// guest messages, whose chat does not last.
func (u Update) Message() (*Message, error) {
	kind := u.Kind()
	if !slices.Contains([]string{
		"message", "edited_message", "channel_post", "edited_channel_post", "business_message", "edited_business_message",
	}, kind) {
		return nil, nil
	}
	var m Message
	if err := json.Unmarshal(u.members[kind], &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	m.Text = cmp.Or(m.Text, m.Caption)
	return &m, nil
}

// Omit returns the reason for which a bot must not answer a message of the update, or "". The reasons
// are "edited", an automatic "forward", a message of a "bot", possibly the bot itself, or of the
// "owner" of a business chat. Anonymous administrators and channels, which the platform represents by
// bots, are answered.
func (u Update) Omit(m *Message) string {
	kind := u.Kind()
	switch {
	case strings.HasPrefix(kind, "edited_"):
		return "edited"
	case m.IsAutomaticForward:
		return "forward"
	case m.SenderBusinessBot != nil, m.From != nil && m.From.IsBot && m.SenderChat == nil:
		return "bot"
	case kind == "business_message" && m.From != nil && m.From.ID != m.Chat.ID:
		return "owner"
	}
	return ""
}

// Sender returns the name and id of the author of a message; both are empty if unknown.
func (m *Message) Sender() (name, id string) {
	switch {
	case m.SenderChat != nil:
		return m.SenderChat.Title, strconv.FormatInt(m.SenderChat.ID, 10)
	case m.From != nil:
		return cmp.Or(m.From.FirstName, m.From.Username), strconv.FormatInt(m.From.ID, 10)
	}
	return "", ""
}

// Ref returns the chat of a message, or its topic. A reply thread in a group without topics has no
// conversation of its own, because the platform accepts no message addressed to it.
func (m *Message) Ref() ConversationRef {
	ref := ConversationRef{Type: TypeChat, ChatID: m.Chat.ID}
	if m.IsTopicMessage {
		ref.MessageThreadID = m.MessageThreadID
	}
	if m.BusinessConnectionID != "" {
		ref.Type, ref.BusinessConnectionID = TypeBusinessChat, m.BusinessConnectionID
	}
	if m.DirectMessagesTopic != nil {
		ref.DirectMessagesTopicID = m.DirectMessagesTopic.TopicID
	}
	return ref
}
