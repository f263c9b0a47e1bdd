package slack

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Message is the part of a message event that most bots need. Event has the rest, and the text as
// received.
type Message struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Channel string `json:"channel"`
	User    string `json:"user"`
	BotID   string `json:"bot_id"`
	// Text is the visible text: without escapes and without mentions of the receiving bot, with links
	// and names instead of the platform's tokens.
	Text     string `json:"text"`
	TS       string `json:"ts"`
	ThreadTS string `json:"thread_ts"` // "" outside of threads
	// Profile is the profile of the user, if the event contains it.
	Profile struct {
		DisplayName string `json:"display_name"`
		RealName    string `json:"real_name"`
		Name        string `json:"name"`
	} `json:"user_profile"`
}

// Message returns the message of a message or mention event, or nil.
func (e *Event) Message() *Message {
	var m Message
	if e.EventType != "message" && e.EventType != "app_mention" || json.Unmarshal(e.Event, &m) != nil {
		return nil
	}
	m.Text = plain(m.Text, e.bot(m.Text))
	return &m
}

// bot returns the id of the receiving bot, or "" if unknown. Events of older apps lack it; for them
// bot returns the mention at the start of an app_mention.
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

// humanSubtypes lists the message subtypes that people write.
var humanSubtypes = []string{"", "file_share", "me_message", "thread_broadcast"}

// Omit returns the reason for which a bot must not answer a message of the event, or "". The reasons
// are "bot", for bots including itself, and a subtype that is not a new message, such as
// "message_changed".
func (e *Event) Omit(m *Message) string {
	switch {
	case m.BotID != "", m.User != "" && m.User == e.bot(""):
		return "bot"
	case !slices.Contains(humanSubtypes, m.Subtype):
		return m.Subtype
	}
	return ""
}

// DeliveryID returns the id for a delivery. It is the same for the message and app_mention events of
// one message; for other events it is EventID.
func (e *Event) DeliveryID() string {
	if m := e.Message(); m != nil && m.Channel != "" && m.TS != "" && e.Omit(m) == "" {
		return "message/" + m.Channel + "/" + m.TS
	}
	return e.EventID
}

// Sender returns the name of the author of a message, which may be unknown, and the id.
func (m *Message) Sender() (name, id string) {
	return cmp.Or(m.Profile.DisplayName, m.Profile.RealName, m.Profile.Name), m.User
}

// isDirect reports whether the channel id belongs to direct messages with one person.
func isDirect(channel string) bool { return strings.HasPrefix(channel, "D") }

// Ref returns the thread of a message, or the thread that it starts. Direct messages outside of
// threads are one conversation.
func (m *Message) Ref(team string) Ref {
	if isDirect(m.Channel) {
		return Ref{team, m.Channel, m.ThreadTS}
	}
	return Ref{team, m.Channel, cmp.Or(m.ThreadTS, m.TS)}
}

var unescape = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">")

// plain returns the visible text without mentions of a bot.
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
			b.WriteString(unescape.Replace(tokenText(token)))
		}
		text = after
	}
}

// tokenText returns the visible form of a token: a mention, a channel, or a link.
func tokenText(token string) string {
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
