package config

import (
	"slices"
	"strings"

	"github.com/parleyrun/parley/channels"
)

// Kinds of channels that need no Go code.
const (
	KindCommerce         = "commerce"
	KindGitHub           = "github"
	KindMessenger        = "messenger"
	KindNotes            = "notes"
	KindSlack            = "slack"
	KindStandardWebhooks = "standardwebhooks"
	KindStripe           = "stripe"
	KindTwilio           = "twilio"
	KindWhatsApp         = "whatsapp"
)

// Channel is a webhook of a platform, whose deliveries are messages to conversations of an agent.
type Channel struct {
	// Name is a part of its path, /channels/<name>.
	Name string
	Kind string
	// Agent is the name of an agent of the server.
	Agent string
	// Secret verifies deliveries, as does Previous while secrets are rotated. VerifyToken is the token
	// of the handshake of whatsapp. All are resolved from the named variables.
	Secret, Previous, VerifyToken string
	// HeaderPrefix replaces the neutral prefix of the platform's headers, for the kinds of
	// headersNamed. Empty keeps the neutral one.
	HeaderPrefix string
	// Account and PublicURL are for twilio only.
	Account, PublicURL string
	// Events lists the delivered types; empty means all.
	Events []string
	// Instance is the template of a conversation id, and Message that of a message. The zero template
	// uses the default of the platform.
	Instance, Message channels.Template
	// Signal converts deliveries to signals of this type, with Attributes.
	Signal     string
	Attributes map[string]channels.Template
	// Reply configures replies to the platform; nil if there are none.
	Reply *ChannelReply
}

// ChannelReply configures calls of a platform's API. An empty URL is the platform's own.
type ChannelReply struct {
	Token, URL string
	// SecretURL reports whether the URL is a secret.
	SecretURL bool
}

// makesIDs reports whether the package of a kind derives conversation ids and message texts.
func makesIDs(kind string) bool {
	return slices.Contains([]string{KindGitHub, KindMessenger, KindSlack, KindTwilio, KindWhatsApp}, kind)
}

// headersNamed reports whether the headers of a kind may have another prefix.
func headersNamed(kind string) bool {
	return slices.Contains([]string{KindCommerce, KindMessenger, KindNotes, KindStandardWebhooks}, kind)
}

// channels reads the channels. Their names are path segments.
func (r *reader) channels(dst *[]Channel) func(value) {
	return func(v value) {
		for _, entry := range r.entries(v, "{kind: slack, agent: echo, secretEnv: SLACK_SIGNING_SECRET}") {
			c := Channel{Name: entry.name}
			if f := checkMount("/" + c.Name); f != (fault{}) || strings.Contains(c.Name, "/") {
				r.blameKey(entry, fault{"is not a valid channel name", "use letters, digits and -._~, because it is a part of the path /channels/<name>"})
			}
			r.channel(entry, &c)
			*dst = append(*dst, c)
		}
	}
}

func (r *reader) channel(v value, c *Channel) {
	r.fields(v, []field{
		{name: "kind", example: KindSlack, required: true, read: r.text(&c.Kind, oneOf("kind of channel",
			KindCommerce, KindGitHub, KindMessenger, KindNotes, KindSlack, KindStandardWebhooks, KindStripe, KindTwilio, KindWhatsApp))},
		{name: "agent", example: "echo", required: true, read: r.text(&c.Agent)},
		{name: "secretEnv", example: "SLACK_SIGNING_SECRET", required: true, read: r.variable(&c.Secret)},
		{name: "previousSecretEnv", example: "OLD_SECRET", read: r.variable(&c.Previous)},
		{name: "verifyTokenEnv", example: "WHATSAPP_VERIFY_TOKEN", read: r.variable(&c.VerifyToken)},
		{name: "headerPrefix", example: "X-Telegram", read: r.text(&c.HeaderPrefix, checkHeaderName)},
		{name: "account", example: "AC0123", read: r.text(&c.Account)},
		{name: "publicUrl", example: "https://example.com/channels/twilio", read: r.text(&c.PublicURL, checkURL)},
		{name: "events", example: "[page.created]", read: r.texts(&c.Events)},
		{name: "instance", example: `"page-{entity.id}"`, read: r.template(&c.Instance)},
		{name: "message", example: `"{type} of {entity.id}"`, read: r.template(&c.Message)},
		{name: "signal", example: "notes.event", read: r.text(&c.Signal)},
		{name: "attributes", example: `{type: "{type}"}`, read: func(v value) {
			c.Attributes = map[string]channels.Template{}
			for _, entry := range r.entries(v, `"{type}"`) {
				var t channels.Template
				r.template(&t)(entry)
				c.Attributes[entry.name] = t
			}
		}},
		{name: "reply", example: "{tokenEnv: SLACK_BOT_TOKEN}", read: func(v value) {
			c.Reply = &ChannelReply{}
			r.fields(v, []field{
				{name: "tokenEnv", example: "SLACK_BOT_TOKEN", read: r.variable(&c.Reply.Token)},
				{name: "url", example: "https://graph.example.com/v1.0", read: r.text(&c.Reply.URL, checkAPI)},
				{name: "urlEnv", example: "BOT_URL", read: r.variable(&c.Reply.URL)},
			})
		}},
	})
	if at, ok := r.given(v, "reply"); ok && c.Reply != nil {
		r.channelReply(at, c)
	}
	for _, key := range []struct {
		name, example string
		needed, given bool
	}{
		{"instance", `"page-{entity.id}"`, c.Kind != "" && !makesIDs(c.Kind), !c.Instance.Zero()},
		{"message", `"{type}"`, c.Kind != "" && (!makesIDs(c.Kind) || c.Kind == KindGitHub), !c.Message.Zero()},
		{"account", "AC0123", c.Kind == KindTwilio, c.Account != ""},
		{"publicUrl", "https://example.com/channels/" + c.Name, c.Kind == KindTwilio, c.PublicURL != ""},
		{"verifyTokenEnv", "WHATSAPP_VERIFY_TOKEN", c.Kind == KindWhatsApp, r.written(v, "verifyTokenEnv")},
		{"signal", "notes.event", c.Attributes != nil, c.Signal != ""},
	} {
		if key.needed && !key.given && !r.blamed[v.at.key(key.name).String()] {
			r.missing(v, key.name, key.example)
		}
	}
	if r.written(v, "previousSecretEnv") && !slices.Contains([]string{KindCommerce, KindStandardWebhooks, KindStripe}, c.Kind) {
		at, _ := r.given(v, "previousSecretEnv")
		r.blameKey(at, fault{"does not apply to a channel of the kind " + quote(c.Kind), "remove it: only commerce, standardwebhooks and stripe rotate secrets"})
	}
	if at, ok := r.given(v, "headerPrefix"); ok && c.HeaderPrefix != "" && !headersNamed(c.Kind) {
		r.blameKey(at, fault{"does not apply to a channel of the kind " + quote(c.Kind), "remove it: only commerce, messenger, notes and standardwebhooks have a header prefix"})
	}
}

// channelReply validates the reply settings of a channel.
func (r *reader) channelReply(v value, c *Channel) {
	url, env := r.written(v, "url"), r.written(v, "urlEnv")
	switch {
	case !slices.Contains([]string{KindMessenger, KindSlack, KindTwilio, KindWhatsApp}, c.Kind):
		r.blameKey(v, fault{"does not apply to a channel of the kind " + quote(c.Kind), "remove it: only messenger, slack, twilio and whatsapp support replies"})
		return
	case c.Signal != "":
		r.blameKey(v, fault{"excludes signal, because a signal has no reply", "remove one of them"})
	case url && env:
		other, _ := r.given(v, "urlEnv")
		r.blameKey(other, fault{"is set in addition to url, but an API has one", "keep url, or urlEnv if it is a secret"})
	case !url && !env && (c.Kind == KindMessenger || c.Kind == KindWhatsApp):
		r.missing(v, "url", "https://graph.example.com/v1.0")
	}
	if !r.written(v, "tokenEnv") && c.Kind != KindMessenger {
		r.missing(v, "tokenEnv", "SLACK_BOT_TOKEN")
	}
	c.Reply.SecretURL = env
}

func checkAPI(s string) fault {
	if err := (&channels.API{URL: s}).Check(); err != nil {
		return fault{quote(s) + " " + err.Error(), "write for example https://graph.example.com/v1.0"}
	}
	return fault{}
}

// template reads a text with placeholders for members of a payload.
func (r *reader) template(dst *channels.Template) func(value) {
	return func(v value) {
		text, ok := r.checked(v)
		if !ok || text == "" {
			return
		}
		t, err := channels.ParseTemplate(text)
		if err != nil {
			r.blame(v, fault{err.Error(), "write for example " + v.example})
			return
		}
		*dst = t
	}
}

// channelAgents checks the agents of channels, and that no agent is mounted at a channel's path.
func (r *reader) channelAgents(root value, s *Server) {
	all, _ := r.given(root, "channels")
	for _, c := range s.Channels {
		known := slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Agent.Name == c.Agent })
		if at, ok := r.seen[all.at.key(c.Name).key("agent").String()]; ok && !known && c.Agent != "" {
			r.blame(at, fault{"names the unknown agent " + quote(c.Agent), "use one of the key agents"})
		}
	}
	for mount, at := range r.mounted {
		if len(s.Channels) > 0 && (mount == "/channels" || strings.HasPrefix(mount, "/channels/")) {
			r.blame(at, fault{"is the path of channels", "mount the agent elsewhere, for example at /agents"})
		}
	}
}
