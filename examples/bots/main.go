package main

import (
	"cmp"
	"log"
	"net/http"
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

// newBots reads the variables.
func newBots() *bots {
	client := &http.Client{Timeout: 15 * time.Second} // less than the outbox waits
	return &bots{
		slack: slackBot{
			secret: channels.Secret(need("SLACK_SIGNING_SECRET")),
			api:    api{client, cmp.Or(os.Getenv("SLACK_API"), "https://slack.com/api"), channels.Secret(need("SLACK_BOT_TOKEN"))},
		},
		messenger: messengerBot{
			secret: channels.Secret(need("MESSENGER_SECRET_TOKEN")),
			api:    api{client, need("MESSENGER_API"), channels.Secret(need("MESSENGER_BOT_TOKEN"))},
		},
	}
}

// need ends the program if a variable is missing: it would take forged messages, or reach nobody.
func need(variable string) string {
	v := os.Getenv(variable)
	if v == "" {
		log.Fatalf("bots: set %s", variable)
	}
	return v
}

// newAgent defines the agent that both bots are.
func newAgent(model string) *agent.Agent {
	return &agent.Agent{Name: agentName, Model: model, Instructions: "You are a helpful bot in a chat. Answer briefly, in plain text."}
}

const agentName = "bot"

// bots are the ways in and out, each by the same name.
type bots struct {
	slack     slackBot
	messenger messengerBot
}

// channels makes the ways in.
func (b *bots) channels(to conversation.Dispatcher) (map[string]channels.Channel, error) {
	s, err := slack.New(&slack.Options{SigningSecret: b.slack.secret, Events: b.slack.events(to)})
	if err != nil {
		return nil, err
	}
	m, err := messenger.New(&messenger.Options{SecretToken: b.messenger.secret, Webhook: b.messenger.webhook(to), Deadline: 10 * time.Second})
	return map[string]channels.Channel{"slack": s, "messenger": m}, err
}

// targets are the ways out.
func (b *bots) targets() map[string]outbox.Target {
	return map[string]outbox.Target{"slack": channels.Replies(b.slack.reply), "messenger": channels.Replies(b.messenger.reply)}
}

// words are what a reply says on a platform that takes so many characters, "" for nothing.
func words(r channels.Reply, most int) string {
	switch {
	case r.Outcome == conversation.OutcomeAborted:
		return ""
	case r.Outcome == conversation.OutcomeFailed:
		return "Sorry, that went wrong. Please try again."
	}
	text := []rune(r.Text)
	if r.Cut || len(text) > most {
		text = append(text[:min(len(text), most-1)], '…')
	}
	return string(text)
}
