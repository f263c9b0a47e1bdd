package messenger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Update is one update as the platform sent it.
type Update struct {
	// ID orders updates, and is the same whenever one is sent.
	ID int64
	// Native is the update as it came: an object with the names, the nesting and the values
	// of the platform. It is not to be changed.
	Native json.RawMessage

	members map[string]json.RawMessage
}

// Known are the members of an update that the platform documents, of which one has at most
// one. Others are handed on as well.
func Known() []string {
	return []string{
		"message", "edited_message", "channel_post", "edited_channel_post", "business_connection", "business_message",
		"edited_business_message", "deleted_business_messages", "guest_message", "message_reaction",
		"message_reaction_count", "inline_query", "chosen_inline_result", "callback_query", "shipping_query",
		"pre_checkout_query", "purchased_paid_media", "poll", "poll_answer", "my_chat_member", "chat_member",
		"chat_join_request", "chat_boost", "removed_chat_boost", "managed_bot", "subscription",
	}
}

// Kind is the known member that says what has happened, "" if there is none: then the
// application has Native.
func (u Update) Kind() string {
	for _, kind := range Known() {
		if _, ok := u.members[kind]; ok {
			return kind
		}
	}
	return ""
}

// Message is the part of the platform's message that most bots read. Native has the rest.
type Message struct {
	ID                   int64  `json:"message_id"`
	Date                 int64  `json:"date"`
	Text                 string `json:"text"` // of media the caption
	Caption              string `json:"caption"`
	Chat                 Chat   `json:"chat"`
	From                 *User  `json:"from"`
	SenderChat           *Chat  `json:"sender_chat"` // on whose behalf it was sent
	SenderBusinessBot    *User  `json:"sender_business_bot"`
	IsAutomaticForward   bool   `json:"is_automatic_forward"`
	BusinessConnectionID string `json:"business_connection_id"`
	MessageThreadID      int64  `json:"message_thread_id"` // of a thread that is no topic, too
	IsTopicMessage       bool   `json:"is_topic_message"`
	DirectMessagesTopic  *struct {
		TopicID int64 `json:"topic_id"`
	} `json:"direct_messages_topic"`
}

// Chat is where a message stands.
type Chat struct {
	ID    int64  `json:"id"`
	Type  string `json:"type"`
	Title string `json:"title"`
}

// User is who wrote it.
type User struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	Username  string `json:"username"`
}

// Message returns the message of an update that is one, new or edited, in a chat that lasts;
// nil of any other, guests' among them.
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

// Omit returns why a bot does not answer a message of the update: it is "edited", a "forward" that the platform makes
// by itself, of a "bot", which may be the same, or of the "owner" of a business chat. It is empty for a message to
// answer. Anonymous administrators and channels, for whom the platform names bots of its own, are people.
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

// Speaker returns the name and the id of who wrote a message, empty if it is not known.
func (m *Message) Speaker() (name, id string) {
	switch {
	case m.SenderChat != nil:
		return m.SenderChat.Title, strconv.FormatInt(m.SenderChat.ID, 10)
	case m.From != nil:
		return cmp.Or(m.From.FirstName, m.From.Username), strconv.FormatInt(m.From.ID, 10)
	}
	return "", ""
}

// Ref is the chat that a message stands in, or the topic of one. A thread of replies in a group without topics is no
// conversation of its own: the platform takes no message to it.
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
