package main

import (
	"context"
	"errors"
	"slices"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/slack"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

// slackBot talks in threads.
type slackBot struct {
	secret channels.Secret
	api    api
}

// events takes what people write; what bots write, this one among them, is nothing to answer.
func (b *slackBot) events(to conversation.Dispatcher) func(context.Context, slack.Event) (any, error) {
	return func(ctx context.Context, in slack.Event) (any, error) {
		m := in.Message()
		if m == nil || m.BotID != "" || m.Subtype != "" || m.Text == "" {
			return nil, nil
		}
		id, err := slack.InstanceID(m.Ref(in.TeamID))
		if err != nil {
			return nil, err
		}
		_, err = channels.Deliver(ctx, to, channels.Delivery{
			Channel: "slack", Agent: agentName, InstanceID: id, DeliveryID: in.EventID, Text: m.Text, Notify: "slack",
		})
		return nil, err
	}
}

// slackMessage is what chat.postMessage takes.
type slackMessage struct {
	Channel     string `json:"channel"`
	ThreadTS    string `json:"thread_ts"`
	Text        string `json:"text"`
	ClientMsgID string `json:"client_msg_id"` // one message under one id
}

// slackGone are the errors of a chat that nobody can write to any more.
var slackGone = []string{"channel_not_found", "is_archived", "thread_not_found"}

func (b *slackBot) reply(ctx context.Context, r channels.Reply) error {
	to, err := slack.ParseInstanceID(r.InstanceID)
	if err != nil {
		return &outbox.GoneError{Err: err}
	}
	text := words(r, 40000)
	if text == "" {
		return nil
	}
	var answer struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	err = b.api.call(ctx, "/chat.postMessage", r.ID, slackMessage{to.Channel, to.ThreadTS, text, r.UUID()}, &answer)
	switch {
	case err != nil || answer.OK:
		return err
	case slices.Contains(slackGone, answer.Error):
		return &outbox.GoneError{Err: errors.New(answer.Error)}
	}
	return errors.New(answer.Error)
}
