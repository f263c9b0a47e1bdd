package server

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/commerce"
	"github.com/parleyrun/parley/channels/github"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/channels/notes"
	"github.com/parleyrun/parley/channels/slack"
	"github.com/parleyrun/parley/channels/standardwebhooks"
	"github.com/parleyrun/parley/channels/stripe"
	"github.com/parleyrun/parley/channels/twilio"
	"github.com/parleyrun/parley/channels/whatsapp"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/internal/contain"
)

// channelsOf returns the channels of the program and of a configuration.
func channelsOf(p *cli.Program, declared []config.Channel) func(conversation.Dispatcher) (map[string]channels.Channel, error) {
	return func(to conversation.Dispatcher) (map[string]channels.Channel, error) {
		all := map[string]channels.Channel{}
		if p.Channels != nil {
			own, err := contain.Do("Channels of the program", func() (map[string]channels.Channel, error) { return p.Channels(to) })
			if err != nil {
				return nil, err
			}
			for name, c := range own {
				all[name] = c
			}
		}
		for _, c := range declared {
			if all[c.Name] != nil {
				return nil, fmt.Errorf("channel %q: the program has a channel of that name; rename that of the configuration", c.Name)
			}
			made, err := (&declaration{c, to}).channel()
			if err != nil {
				return nil, fmt.Errorf("channel %q: %w", c.Name, err)
			}
			all[c.Name] = made
		}
		return all, checkMounts(p.Mounts, all)
	}
}

// declaration is a channel of a configuration.
type declaration struct {
	config.Channel
	to conversation.Dispatcher
}

// delivery is the content of one delivery in a form common to all platforms.
type delivery struct {
	id      string   // id of the delivery, empty if the platform sends none
	kinds   []string // names of its kind, any of which the configuration may list
	payload any      // for templates
	// instance and text are derived by the package of the platform and may be empty.
	instance, text string
}

// deliver sends a message or a signal to the configured conversation. It ignores a delivery without a
// conversation or a text.
func (d *declaration) deliver(ctx context.Context, s delivery) (any, error) {
	if len(d.Events) > 0 && !slices.ContainsFunc(s.kinds, func(k string) bool { return slices.Contains(d.Events, k) }) {
		return nil, nil
	}
	to := channels.Delivery{Channel: d.Name, Agent: d.Agent, InstanceID: s.instance, DeliveryID: s.id, Text: s.text, SignalType: d.Signal}
	if d.Reply != nil {
		to.Notify = replyTarget(d.Name)
	}
	whole := true
	if !d.Instance.Zero() {
		to.InstanceID, whole = d.Instance.Render(s.payload)
		to.InstanceID = channels.FitID(to.InstanceID)
		to.ReplyAddress = s.instance
	}
	if !d.Message.Zero() {
		to.Text, _ = d.Message.Render(s.payload)
	}
	switch {
	case !whole || to.InstanceID == "":
		return d.omit(ctx, "no conversation")
	case d.Reply != nil && s.instance == "":
		return d.omit(ctx, "no place for a reply")
	case to.Text == "":
		return d.omit(ctx, "no text")
	}
	for name, t := range d.Attributes {
		if to.Attributes == nil {
			to.Attributes = map[string]string{}
		}
		to.Attributes[name], _ = t.Render(s.payload)
	}
	_, err := channels.Deliver(ctx, d.to, to)
	return nil, err
}

// omit ignores a delivery of a kind. It is counted, and each kind is logged once.
func (d *declaration) omit(ctx context.Context, kind string) (any, error) {
	channels.Omit(ctx, kind)
	return nil, nil
}

// spoken prefixes a message with its speaker; the model has no other source for it.
func (d *declaration) spoken(name, id, text string) string {
	switch {
	case text == "" || id == "" || d.Signal != "":
		return text
	case name == "":
		return id + ": " + text
	}
	return strings.Join(strings.Fields(name), " ") + " (" + id + "): " + text
}

// shared reports whether a conversation may have several chats, and so several speakers, because the
// configuration sets its id.
func (d *declaration) shared() bool { return !d.Instance.Zero() }

// native delivers a JSON object.
func (d *declaration) native(ctx context.Context, object []byte, s delivery) (any, error) {
	payload, err := channels.ParseLossless(object)
	if err != nil {
		return nil, err
	}
	s.payload = payload
	return d.deliver(ctx, s)
}

// header replaces the neutral prefix of a header by that of the platform.
func (d *declaration) header(neutral, name string) string {
	if d.HeaderPrefix == "" {
		return name
	}
	return d.HeaderPrefix + strings.TrimPrefix(name, neutral)
}

// previous returns the secret before the rotation, nil for none.
func (d *declaration) previous() *channels.Secret {
	if d.Previous == "" {
		return nil
	}
	return channels.NewSecret(d.Previous)
}

func (d *declaration) channel() (channels.Channel, error) {
	secret := channels.Secret(d.Secret)
	switch d.Kind {
	case config.KindSlack:
		return slack.New(&slack.Options{SigningSecret: secret, Events: d.slack})
	case config.KindMessenger:
		return messenger.New(&messenger.Options{
			SecretToken: secret, SecretHeader: d.header("X-Messenger", messenger.DefaultSecretHeader), Webhook: d.messenger,
		})
	case config.KindGitHub:
		return github.New(&github.Options{Secret: secret, Webhook: d.github})
	case config.KindWhatsApp:
		return whatsapp.New(&whatsapp.Options{AppSecret: secret, VerifyToken: channels.Secret(d.VerifyToken), Webhook: d.whatsapp})
	case config.KindTwilio:
		return twilio.New(&twilio.Options{AuthToken: secret, AccountSID: d.Account, PublicURL: d.PublicURL, Webhook: d.twilio})
	case config.KindNotes:
		header := d.header("X-Notes", notes.DefaultSignatureHeader)
		return notes.New(&notes.Options{VerificationToken: &secret, SignatureHeader: header, Webhook: func(ctx context.Context, in notes.Incoming) (any, error) {
			payload, err := channels.ParseLossless(in.Event.Native)
			id, _ := commerce.Text(commerce.Member(payload, "id"))
			if err != nil {
				return nil, err
			}
			return d.deliver(ctx, delivery{id: id, kinds: []string{string(in.Event.Type)}, payload: payload})
		}})
	case config.KindStripe:
		return stripe.New(&stripe.Options{Secret: secret, PreviousSecret: d.previous(), Webhook: func(ctx context.Context, in stripe.Incoming) (any, error) {
			return d.native(ctx, in.Native, delivery{id: in.ID, kinds: []string{in.Type}})
		}})
	case config.KindStandardWebhooks:
		return standardwebhooks.New(&standardwebhooks.Options{
			Secret: secret, PreviousSecret: d.previous(), Prefix: d.HeaderPrefix,
			Webhook: func(ctx context.Context, in standardwebhooks.Incoming) (any, error) {
				return d.native(ctx, in.Native, delivery{id: in.ID, kinds: []string{in.Type}})
			},
		})
	case config.KindCommerce:
		var c *commerce.Channel
		c, err := commerce.New(&commerce.Options{
			ClientSecret: secret, PreviousClientSecret: d.previous(), Headers: commerce.Headers{Prefix: d.HeaderPrefix},
			Webhook: func(ctx context.Context, in commerce.Incoming) (any, error) {
				meta := c.Metadata(in.C)
				return d.deliver(ctx, delivery{id: meta.WebhookID, kinds: []string{meta.Topic}, payload: in.Payload})
			},
		})
		return c, err
	}
	return nil, fmt.Errorf("kind %q is not known", d.Kind)
}

// slack ignores messages of bots, including its own, and events that are not new messages.
func (d *declaration) slack(ctx context.Context, in slack.Event) (any, error) {
	s := delivery{id: in.DeliveryID(), kinds: []string{in.EventType}}
	if m := in.Message(); m != nil {
		if kind := in.Omit(m); kind != "" {
			return d.omit(ctx, kind)
		}
		name, id := m.Sender()
		s.text = d.spoken(name, id, m.Text)
		s.instance, _ = slack.InstanceID(m.Ref(in.TeamID)) // no conversation without an instance
	}
	return d.native(ctx, in.Native, s)
}

// messenger ignores messages of bots and owners, and events that are not new messages.
func (d *declaration) messenger(ctx context.Context, in messenger.Incoming) (any, error) {
	s := delivery{id: strconv.FormatInt(in.Update.ID, 10), kinds: []string{in.Update.Kind()}}
	m, err := in.Update.Message()
	if err != nil {
		return nil, err
	}
	if m != nil {
		if kind := in.Update.Omit(m); kind != "" {
			return d.omit(ctx, kind)
		}
		s.text = m.Text
		if d.shared() || strings.HasSuffix(m.Chat.Type, "group") {
			name, id := m.Sender()
			s.text = d.spoken(name, id, m.Text)
		}
		s.instance, _ = messenger.InstanceID(m.Ref()) // no conversation without an instance
	}
	return d.native(ctx, in.Update.Native, s)
}

// github ignores comments of bots, including its own.
func (d *declaration) github(ctx context.Context, in github.Incoming) (any, error) {
	if in.OfBot() {
		return d.omit(ctx, "bot")
	}
	s := delivery{id: in.DeliveryID, kinds: []string{in.Event, in.Event + "." + in.Action}}
	if ref, ok := in.Ref(); ok {
		s.instance, _ = github.InstanceID(ref) // no conversation without an instance
	}
	return d.native(ctx, in.Native, s)
}

// whatsapp delivers each message of a delivery. If one is not admitted, the platform sends all of them
// again.
func (d *declaration) whatsapp(ctx context.Context, in whatsapp.Incoming) (any, error) {
	all, err := in.Messages()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 { // a status report of sent messages, for example
		return d.omit(ctx, "no message")
	}
	for _, m := range all {
		s := delivery{id: m.ID, kinds: []string{m.Type}, text: m.Text.Body}
		if d.shared() || m.GroupID != "" {
			s.text = d.spoken(m.Name, m.From, m.Text.Body)
		}
		s.instance, _ = whatsapp.InstanceID(m.Ref()) // no conversation without an instance
		if _, err := d.native(ctx, m.Native, s); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (d *declaration) twilio(ctx context.Context, in twilio.Incoming) (any, error) {
	s := delivery{id: in.MessageSID, kinds: []string{"message"}, text: in.Body, payload: formObject(in.Native)}
	if d.shared() {
		s.text = d.spoken("", in.From, in.Body)
	}
	s.instance, _ = twilio.InstanceID(in.Ref()) // no conversation without an instance
	switch {
	case in.MessageSID == "" && in.Native.Has("CallSid"):
		return d.omit(ctx, "call")
	case in.IsStatus():
		return d.omit(ctx, "status")
	}
	return d.deliver(ctx, s)
}

// formObject converts a form for templates: the first value of each field.
func formObject(form url.Values) map[string]any {
	object := map[string]any{}
	for name := range form {
		object[name] = form.Get(name)
	}
	return object
}
