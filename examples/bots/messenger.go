package main

import (
	"context"
	"strconv"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/conversation"
)

// messengerBot is the bot in chats and their topics.
type messengerBot struct {
	secret channels.Secret
	api    channels.API
}

// webhook delivers new messages with text and skips edits and other bots.
func (b *messengerBot) webhook(to conversation.Dispatcher) func(context.Context, messenger.Incoming) (any, error) {
	return func(ctx context.Context, in messenger.Incoming) (any, error) {
		m, err := in.Update.Message()
		if m == nil || err != nil || in.Update.Omit(m) != "" || m.Text == "" {
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
