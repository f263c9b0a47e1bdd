package main

import (
	"context"
	"strconv"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// messengerBot talks in chats, and in their threads.
type messengerBot struct {
	secret channels.Secret
	api    api
}

// webhook takes new messages with text; one that is edited was answered before.
func (b *messengerBot) webhook(to conversation.Dispatcher) func(context.Context, messenger.Incoming) (any, error) {
	return func(ctx context.Context, in messenger.Incoming) (any, error) {
		if kind := in.Update.Kind(); kind != "message" && kind != "business_message" {
			return nil, nil
		}
		m, err := in.Update.Message()
		if err != nil || m.Text == "" || m.From != nil && m.From.IsBot {
			return nil, err
		}
		id, err := messenger.InstanceID(m.Ref())
		if err != nil {
			return nil, err
		}
		_, err = channels.Deliver(ctx, to, channels.Delivery{
			Channel: "messenger", Agent: agentName, InstanceID: id, DeliveryID: strconv.FormatInt(in.Update.ID, 10), Text: m.Text, Notify: "messenger",
		})
		return nil, err
	}
}

// messengerMessage is what sendMessage takes.
type messengerMessage struct {
	ChatID   int64  `json:"chat_id"`
	Thread   int64  `json:"message_thread_id,omitempty"`
	Topic    int64  `json:"direct_messages_topic_id,omitempty"`
	Business string `json:"business_connection_id,omitempty"`
	Text     string `json:"text"`
}

func (b *messengerBot) reply(ctx context.Context, r channels.Reply) error {
	to, err := messenger.ParseInstanceID(r.InstanceID)
	if err != nil {
		return &outbox.GoneError{Err: err}
	}
	text := words(r, 4096)
	if text == "" {
		return nil
	}
	m := messengerMessage{to.ChatID, to.MessageThreadID, to.DirectMessagesTopicID, to.BusinessConnectionID, text}
	return b.api.call(ctx, "/sendMessage", r.ID, m, nil)
}
