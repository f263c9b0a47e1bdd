package server

import (
	"fmt"
	"maps"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/channels/slack"
	"github.com/parleyrun/parley/channels/twilio"
	"github.com/parleyrun/parley/channels/whatsapp"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/outbox"
)

// replyTarget names the target that sends replies of a declared channel to its platform.
func replyTarget(channel string) string { return "channels." + channel }

// targetsOf returns the targets of the program and those of declared channels that reply.
func targetsOf(own map[string]outbox.Target, declared []config.Channel) (map[string]outbox.Target, error) {
	all := map[string]outbox.Target{}
	maps.Copy(all, own)
	for _, c := range declared {
		if c.Reply == nil {
			continue
		}
		name := replyTarget(c.Name)
		if all[name] != nil {
			return nil, fmt.Errorf("channels.%s.reply: the program has a target %q; give one of the two another name", c.Name, name)
		}
		replies := map[string]func(channels.API) outbox.Target{
			config.KindMessenger: messenger.Replies, config.KindSlack: slack.Replies, config.KindTwilio: twilio.Replies, config.KindWhatsApp: whatsapp.Replies,
		}[c.Kind]
		if replies == nil {
			return nil, fmt.Errorf("channels.%s.reply: kind %q does not support replies", c.Name, c.Kind)
		}
		all[name] = replies(channels.API{URL: c.Reply.URL, Token: channels.Secret(c.Reply.Token)})
	}
	return all, nil
}
