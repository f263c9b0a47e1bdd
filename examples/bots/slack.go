package main

import (
	"context"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/slack"
	"github.com/parleyrun/parley/conversation"
)

// slackBot is the bot in threads and direct messages.
type slackBot struct {
	secret channels.Secret
	api    channels.API
}

// events delivers messages of people and skips those of bots, including its own.
func (b *slackBot) events(to conversation.Dispatcher) func(context.Context, slack.Event) (any, error) {
	return func(ctx context.Context, in slack.Event) (any, error) {
		m := in.Message()
		if m == nil || in.Omit(m) != "" || m.Text == "" {
			return nil, nil
		}
		id, err := slack.InstanceID(m.Ref(in.TeamID))
		if err != nil {
			return nil, err
		}
		_, err = channels.Deliver(ctx, to, channels.Delivery{
			Channel: "slack", Agent: agentName, InstanceID: id, DeliveryID: in.DeliveryID(), Text: m.Text, Notify: "slack",
		})
		return nil, err
	}
}
