package slack

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Message is the part of an event that most bots read of a message. Event has the rest, and the text as it came.
type Message struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Channel string `json:"channel"`
	User    string `json:"user"`
	BotID   string `json:"bot_id"`
	// Text is what people read: without escapes, with links and names in place of the platform's tokens, and without
	// mentions of the bot that the event is for.
	Text     string `json:"text"`
	TS       string `json:"ts"`
	ThreadTS string `json:"thread_ts"` // "" of what begins none
	// Profile is that of the user, if the event has it.
	Profile struct {
		DisplayName string `json:"display_name"`
		RealName    string `json:"real_name"`
		Name        string `json:"name"`
	} `json:"user_profile"`
}

// Message returns the message of an event that is one, or a mention; nil of others.
func (e *Event) Message() *Message {
	var m Message
	if e.EventType != "message" && e.EventType != "app_mention" || json.Unmarshal(e.Event, &m) != nil {
		return nil
	}
	m.Text = plain(m.Text, e.bot(m.Text))
	return &m
}

// bot returns the id of the bot that the event is for, "" if it is not known. An event of older apps has none: then
// the mention at the start of the text of an app_mention is it.
func (e *Event) bot(text string) string {
	var request struct {
		Authorizations []struct {
			UserID string `json:"user_id"`
			IsBot  bool   `json:"is_bot"`
		} `json:"authorizations"`
	}
	if json.Unmarshal(e.Native, &request) == nil {
		for _, a := range request.Authorizations {
			if a.IsBot {
				return a.UserID
			}
		}
	}
	token, ok := strings.CutPrefix(strings.TrimSpace(text), "<@")
	if token, _, closed := strings.Cut(token, ">"); ok && closed && e.EventType == "app_mention" {
		id, _, _ := strings.Cut(token, "|")
		return id
	}
	return ""
}

// spoken are the subtypes of messages that somebody writes.
var spoken = []string{"", "file_share", "me_message", "thread_broadcast"}

// Omit returns why a bot does not answer a message of the event: it is of a "bot", which may be the same, or of a
// subtype, such as "message_changed", that is no new message. It is empty for a message to answer.
func (e *Event) Omit(m *Message) string {
	switch {
	case m.BotID != "", m.User != "" && m.User == e.bot(""):
		return "bot"
	case !slices.Contains(spoken, m.Subtype):
		return m.Subtype
	}
	return ""
}

// DeliveryID returns the id for a delivery: that of the message, which is the same for the events message and
// app_mention of one; of other events EventID.
func (e *Event) DeliveryID() string {
	if m := e.Message(); m != nil && m.Channel != "" && m.TS != "" && e.Omit(m) == "" {
		return "message/" + m.Channel + "/" + m.TS
	}
	return e.EventID
}

// Speaker returns the name of who wrote a message, which may be unknown, and the id.
func (m *Message) Speaker() (name, id string) {
	return cmp.Or(m.Profile.DisplayName, m.Profile.RealName, m.Profile.Name), m.User
}

// isDirect reports whether a channel is one of direct messages with one person.
func isDirect(channel string) bool { return strings.HasPrefix(channel, "D") }

// Ref is the thread that a message stands in, or that it would begin. Direct messages outside of threads are one
// conversation.
func (m *Message) Ref(team string) Ref {
	if isDirect(m.Channel) {
		return Ref{team, m.Channel, m.ThreadTS}
	}
	return Ref{team, m.Channel, cmp.Or(m.ThreadTS, m.TS)}
}

// unescape undoes what the platform escapes.
var unescape = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">")

// plain returns a text as people read it, without mentions of a bot.
func plain(text, bot string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "<")
		token, after, closed := strings.Cut(rest, ">")
		if !ok || !closed {
			b.WriteString(unescape.Replace(text))
			return strings.TrimSpace(b.String())
		}
		b.WriteString(unescape.Replace(before))
		if id, _, _ := strings.Cut(token, "|"); bot != "" && id == "@"+bot {
			if after = strings.TrimLeft(after, " \u00a0"); strings.TrimSpace(b.String()) == "" {
				after = strings.TrimLeft(after, ":, ")
			}
		} else {
			b.WriteString(unescape.Replace(shownToken(token)))
		}
		text = after
	}
}

// shownToken returns a token of the platform as it shows it: a mention, a channel, a link.
func shownToken(token string) string {
	target, label, labeled := strings.Cut(token, "|")
	labeled = labeled && label != ""
	switch {
	case target == "":
		return "<" + token + ">"
	case target[0] == '@' || target[0] == '#':
		if labeled {
			return target[:1] + strings.TrimPrefix(label, target[:1])
		}
		return target
	case target[0] == '!':
		if labeled {
			return label
		}
		return "@" + target[1:]
	case !labeled || label == target || strings.HasSuffix(target, "://"+label):
		return strings.TrimPrefix(target, "mailto:")
	case target == "mailto:"+label || target == "tel:"+label:
		return label
	}
	return label + " (" + target + ")"
}
