package slack_test

import (
	"encoding/json"
	"testing"

	"github.com/parleyrun/parley/channels/slack"
)

// eventOf returns the event of a request to the bot UB.
func eventOf(kind, event string) slack.Event {
	native := `{"event_id":"E-` + kind + `","authorizations":[{"user_id":"U0","is_bot":false},{"user_id":"UB","is_bot":true}],"event":` + event + `}`
	return slack.Event{EventType: kind, EventID: "E-" + kind, TeamID: "T", Native: json.RawMessage(native), Event: json.RawMessage(event)}
}

// covers: channels/188
func TestSlackText(t *testing.T) {
	for text, want := range map[string]string{
		"1 &lt; 2 &amp; 3":                              "1 < 2 & 3",
		"&amp;lt;":                                      "&lt;",
		"<@UB> Hi":                                      "Hi",
		"<@UB>: Hi":                                     "Hi",
		"ask <@UB|bot> for <@U2>":                       "ask for @U2",
		"<@U2|ada> in <#C2|general>, <#C3>":             "@ada in #general, #C3",
		"<!here> <!subteam^S1|@team> <!channel>":        "@here @team @channel",
		"<https://a.example/?x=1&amp;y=2>":              "https://a.example/?x=1&y=2",
		"<https://a.example/|site>, <http://b.c|b.c>":   "site (https://a.example/), http://b.c",
		"<mailto:a@b.example|a@b.example> <mailto:x@y>": "a@b.example x@y",
		"a < b": "a < b",
		"<>":    "<>",
	} {
		body, err := json.Marshal(map[string]string{"type": "message", "text": text})
		if err != nil {
			t.Fatal(err)
		}
		e := eventOf("message", string(body))
		if got := e.Message().Text; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	const old = `{"type":"app_mention","text":"<@UX> ask <@UY>"}`
	e := slack.Event{EventType: "app_mention", Native: json.RawMessage(`{"event":` + old + `}`), Event: json.RawMessage(old)}
	if got := e.Message().Text; got != "ask @UY" {
		t.Errorf("%s: got %q, want the first mention removed", old, got)
	}
}

// covers: channels/189
func TestSlackOmit(t *testing.T) {
	for event, want := range map[string]string{
		`{"user":"U1"}`: "", `{"user":"U1","subtype":"file_share"}`: "", `{"user":"U1","subtype":"thread_broadcast"}`: "", `{"user":"U1","subtype":"me_message"}`: "",
		`{"bot_id":"B"}`: "bot", `{"user":"UB"}`: "bot", `{"subtype":"bot_message","bot_id":"B"}`: "bot",
		`{"subtype":"message_changed"}`: "message_changed", `{"subtype":"message_deleted"}`: "message_deleted", `{"user":"U1","subtype":"channel_join"}`: "channel_join",
	} {
		e := eventOf("message", event)
		if got := e.Omit(e.Message()); got != want {
			t.Errorf("%s: got %q, want %q", event, got, want)
		}
	}
}

// covers: channels/190
func TestSlackDeliveryID(t *testing.T) {
	const message = `{"channel":"C","ts":"1.2","user":"U1","text":"<@UB> Hi"}`
	plain, mention, other := eventOf("message", message), eventOf("app_mention", message), eventOf("message", `{"channel":"C","ts":"1.3","user":"U1"}`)
	if plain.DeliveryID() != mention.DeliveryID() || plain.DeliveryID() == other.DeliveryID() {
		t.Errorf("got %q, %q and %q, want one id for two events of a message", plain.DeliveryID(), mention.DeliveryID(), other.DeliveryID())
	}
	edit, reaction := eventOf("message", `{"channel":"C","ts":"1.2","subtype":"message_changed"}`), eventOf("reaction_added", `{}`)
	if edit.DeliveryID() != "E-message" || reaction.DeliveryID() != "E-reaction_added" {
		t.Errorf("got %q and %q, want the ids of the events", edit.DeliveryID(), reaction.DeliveryID())
	}
}

// covers: channels/191
func TestSlackDirect(t *testing.T) {
	for event, want := range map[string]string{
		`{"channel":"D1","ts":"1.2"}`: "slack:v1:T:D1:", `{"channel":"D1","ts":"1.3"}`: "slack:v1:T:D1:",
		`{"channel":"D1","ts":"1.4","thread_ts":"1.2"}`: "slack:v1:T:D1:1.2", `{"channel":"C1","ts":"1.2"}`: "slack:v1:T:C1:1.2",
	} {
		e := eventOf("message", event)
		id, err := slack.InstanceID(e.Message().Ref(e.TeamID))
		if id != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", event, id, err, want)
		}
		if ref, err := slack.ParseInstanceID(id); err != nil || ref != e.Message().Ref("T") {
			t.Errorf("%s: got %+v, %v back", id, ref, err)
		}
	}
}
