package main

import (
	"log"
	"os"
	"time"

	"github.com/parleyrun/parley"
	"github.com/parleyrun/parley/agent"
	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/channels/slack"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/outbox"
)

func main() {
	b := newBots()
	(&parley.Program{Agents: []*agent.Agent{newAgent("openai/gpt-5-mini")}, Channels: b.channels, Targets: b.targets()}).Main()
}

// newBots configures the bots from environment variables.
func newBots() *bots {
	return &bots{
		slack: slackBot{
			secret: channels.Secret(need("SLACK_SIGNING_SECRET")),
			api:    channels.API{URL: os.Getenv("SLACK_API"), Token: channels.Secret(need("SLACK_BOT_TOKEN"))},
		},
		messenger: messengerBot{
			secret: channels.Secret(need("MESSENGER_SECRET_TOKEN")),
			api:    channels.API{URL: need("MESSENGER_API"), Token: channels.Secret(need("MESSENGER_BOT_TOKEN"))},
		},
	}
}

// need returns a required variable. Without the secrets the bot would accept forged messages.
func need(variable string) string {
	v := os.Getenv(variable)
	if v == "" {
		log.Fatalf("bots: set %s", variable)
	}
	return v
}

// newAgent returns the agent behind both bots.
func newAgent(model string) *agent.Agent {
	return &agent.Agent{Name: agentName, Model: model, Instructions: "You are a helpful bot in a chat. Answer briefly, in plain text."}
}

const agentName = "bot"

// bots has the configuration of both platforms. The name of a channel is also that of its reply
// target.
type bots struct {
	slack     slackBot
	messenger messengerBot
}

// channels receives the webhooks of both platforms.
func (b *bots) channels(to conversation.Dispatcher) (map[string]channels.Channel, error) {
	s, err := slack.New(&slack.Options{SigningSecret: b.slack.secret, Events: b.slack.events(to)})
	if err != nil {
		return nil, err
	}
	m, err := messenger.New(&messenger.Options{SecretToken: b.messenger.secret, Webhook: b.messenger.webhook(to), Deadline: 10 * time.Second})
	return map[string]channels.Channel{"slack": s, "messenger": m}, err
}

// targets sends the replies: first as drafts, which are edited until the reply is complete.
func (b *bots) targets() map[string]outbox.Target {
	return map[string]outbox.Target{"slack": slack.Replies(b.slack.api), "messenger": messenger.Replies(b.messenger.api)}
}
