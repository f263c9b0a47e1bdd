package messenger

import (
	"encoding/json"
	"fmt"
	"slices"
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
	Text                 string `json:"text"`
	Chat                 Chat   `json:"chat"`
	From                 *User  `json:"from"`
	BusinessConnectionID string `json:"business_connection_id"`
	MessageThreadID      int64  `json:"message_thread_id"`
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
	return &m, nil
}

// Ref is the chat that a message stands in.
func (m *Message) Ref() ConversationRef {
	ref := ConversationRef{Type: TypeChat, ChatID: m.Chat.ID, MessageThreadID: m.MessageThreadID}
	if m.BusinessConnectionID != "" {
		ref.Type, ref.BusinessConnectionID = TypeBusinessChat, m.BusinessConnectionID
	}
	if m.DirectMessagesTopic != nil {
		ref.DirectMessagesTopicID = m.DirectMessagesTopic.TopicID
	}
	return ref
}
