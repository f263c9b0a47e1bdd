package messenger

import (
	"regexp"
	"strconv"

	"github.com/parleyrun/parley/channels"
)

// InvalidInstanceIDError reports a text that is not an instance id of this package.
type InvalidInstanceIDError = channels.InstanceIDError

// InvalidConversationKeyError is the name of InvalidInstanceIDError in the beta line.
//
// Deprecated: use InvalidInstanceIDError.
type InvalidConversationKeyError = InvalidInstanceIDError

// Type is the type of a chat. Ids are unique within a type.
type Type string

// Types of chats.
const (
	TypeChat         Type = "chat"
	TypeBusinessChat Type = "business-chat"
)

// ConversationRef identifies a chat, or a thread of one. The two kinds of threads are mutually
// exclusive.
type ConversationRef struct {
	Type                  Type
	BusinessConnectionID  string // only for TypeBusinessChat, ignored otherwise
	ChatID                int64
	MessageThreadID       int64 // 0 for none
	DirectMessagesTopicID int64 // 0 for none
}

func (r ConversationRef) check() error {
	const most = 1<<53 - 1
	bad := func(n int64) bool { return n < 0 || n > most }
	switch {
	case r.Type != TypeChat && r.Type != TypeBusinessChat:
		return invalid("conversation.type", `must be "chat" or "business-chat"`)
	case r.ChatID == 0 || r.ChatID > most || r.ChatID < -most:
		return invalid("conversation.chatId", "must be an integer other than 0 within ±(2^53-1)")
	case bad(r.MessageThreadID):
		return invalid("conversation.messageThreadId", "must be a positive integer up to 2^53-1, or 0 for none")
	case bad(r.DirectMessagesTopicID):
		return invalid("conversation.directMessagesTopicId", "must be a positive integer up to 2^53-1, or 0 for none")
	case r.MessageThreadID != 0 && r.DirectMessagesTopicID != 0:
		return invalid("conversation.topic", "must not have both a thread and a direct topic")
	}
	return nil
}

// InstanceID returns the conversation id of a chat. It is deterministic. An error is an
// [*InvalidInputError].
func InstanceID(ref ConversationRef) (string, error) {
	if err := ref.check(); err != nil {
		return "", err
	}
	id := name + ":v1:regular"
	if ref.Type == TypeBusinessChat {
		segment, ok := channels.Escape(ref.BusinessConnectionID)
		if !ok {
			return "", invalid("conversation.businessConnectionId", "must be non-empty UTF-8")
		}
		id = name + ":v1:business:" + segment
	}
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	return id + ":chat:" + number(ref.ChatID) + ":thread:" + number(ref.MessageThreadID) +
		":direct:" + number(ref.DirectMessagesTopicID), nil
}

var instanceID = regexp.MustCompile(`^` + name + `:v1:(?:regular|business:([^:]+)):chat:(-?[0-9]+):thread:([0-9]*):direct:([0-9]*)$`)

// ParseInstanceID is the inverse of InstanceID. For any other text it returns an
// [*InvalidInstanceIDError].
func ParseInstanceID(id string) (ConversationRef, error) {
	parts := instanceID.FindStringSubmatch(id)
	if parts == nil {
		return ConversationRef{}, &InvalidInstanceIDError{Channel: name}
	}
	// A number out of range becomes 0 or the maximum, and so fails the comparison below.
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	ref := ConversationRef{
		Type: TypeChat, ChatID: number(parts[2]), MessageThreadID: number(parts[3]), DirectMessagesTopicID: number(parts[4]),
	}
	if parts[1] != "" {
		ref.Type = TypeBusinessChat
		ref.BusinessConnectionID, _ = channels.Unescape(parts[1])
	}
	if again, err := InstanceID(ref); err != nil || again != id {
		return ConversationRef{}, &InvalidInstanceIDError{Channel: name}
	}
	return ref, nil
}

// ConversationKey is the name of InstanceID in the beta line.
//
// Deprecated: use InstanceID.
func ConversationKey(ref ConversationRef) (string, error) { return InstanceID(ref) }

// ParseConversationKey is the name of ParseInstanceID in the beta line.
//
// Deprecated: use ParseInstanceID.
func ParseConversationKey(key string) (ConversationRef, error) { return ParseInstanceID(key) }
