package messenger_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/messenger"
)

const (
	secret  = "Secret_Token-1"
	message = `{"update_id":7,"message":{"message_id":1,"date":1,"chat":{"id":-100,"type":"supergroup"},"from":{"id":5,"is_bot":false,"first_name":"A"},` +
		`"text":"Hello.","message_thread_id":42,"is_topic_message":true,"new_member":true}}`
)

// covers: channels/1 routing, channels/4 order_of_checks, channels/7 results, channels/8 null, channels/9 boolean
// covers: channels/10 number, channels/11 string, channels/12 array, channels/13 object, channels/14 response
// covers: channels/16 later_than_later, channels/17 unavailable, channels/18 limit, channels/19 declared_too_long
// covers: channels/20 limit, channels/21 slow_sender, channels/22 malformed_length, channels/23 media_type
// covers: channels/28 routing, channels/29 ignored, channels/32 proof, channels/76 forged_proof, channels/76 proof
// covers: channels/77 order_of_checks, channels/78 broken_bodies, channels/78 id_is_text, channels/78 negative_id
// covers: channels/79 almost_zero, channels/79 exponent, channels/79 negative_zero, channels/79 whole_fraction
// covers: channels/88 error_handler, channels/88 failures, channels/164 slow_callback, channels/173 panics
// covers: channels/175 no_id
func TestMessengerSuite(t *testing.T) {
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			c, err := messenger.New(&messenger.Options{
				SecretToken: secret, BodyLimit: limit,
				Webhook: func(ctx context.Context, _ messenger.Incoming) (any, error) { return callback(ctx) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		Path: "/webhook", MediaType: "application/json", Body: message, Unsigned: true,
		Pad:       func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove:     func(h http.Header, _ []byte) { h.Set(messenger.DefaultSecretHeader, secret) },
		Header:    messenger.DefaultSecretHeader,
		Malformed: []string{"with space", secret + ",", strings.Repeat("a", 300)},
		Forged:    []string{"Secret_Token-2", strings.ToLower(secret), secret[1:]},
		Broken: map[string]string{
			"empty": "", "not JSON": `{"update_id":`, "two values": `{"update_id":1} {}`, "array": `[{"update_id":1}]`, "null": "null", "no id": `{"message":{}}`,
			"negative id": `{"update_id":-1}`, "id is text": `{"update_id":"5"}`, "id is null": `{"update_id":null}`, "id is a fraction": `{"update_id":1.5}`,
			"negative zero": `{"update_id":-0}`, "whole fraction": `{"update_id":5.0}`, "exponent": `{"update_id":5e0}`, "exponent in capitals": `{"update_id":1E3}`,
			"negative exponent": `{"update_id":50e-1}`, "almost zero": `{"update_id":-1e-400}`, "almost zero above": `{"update_id":1e-400}`, "zero fraction": `{"update_id":0.0}`,
			"id is beyond 2^64": `{"update_id":18446744073709551621}`, "id is an object": `{"update_id":{}}`, "id is true": `{"update_id":true}`,
			"id is beyond 2^53": `{"update_id":9007199254740993}`, "id in capitals": `{"UPDATE_ID":1}`, "not UTF-8": "{\"update_id\":1,\"a\":\"\xff\"}",
		},
		Order: []channeltest.Fault{
			channeltest.MalformedLength, channeltest.MediaType, channeltest.Missing, channeltest.Malformed, channeltest.Forged,
			channeltest.Declared, channeltest.Streamed, channeltest.Broken,
		},
	})
}

// receive returns the update of a body.
func receive(t *testing.T, body string) (got messenger.Update) {
	t.Helper()
	c, err := messenger.New(&messenger.Options{SecretToken: secret, SecretHeader: "X-Other", Webhook: func(_ context.Context, in messenger.Incoming) (any, error) {
		got = in.Update
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Other", secret)
	w := httptest.NewRecorder()
	if c.Route().ServeHTTP(w, r); w.Code != http.StatusOK || string(got.Native) != strings.TrimPrefix(body, "\ufeff") {
		t.Fatalf("%s: got %d and update %s", body, w.Code, got.Native)
	}
	return got
}

// covers: channels/24
func TestEnvelope(t *testing.T) {
	for body, want := range map[string]int64{
		`{"update_id":0}`: 0, `{"update_id": 5 }`: 5, `{"update_id":1000}`: 1000, `{"update_id":9007199254740991}`: 1<<53 - 1,
		`{"update_id":1,"update_id":2}`: 2, "\ufeff" + `{"update_id":3}`: 3,
	} {
		if got := receive(t, body).ID; got != want {
			t.Errorf("%s: got id %d, want %d", body, got, want)
		}
	}
}

// TestKnownUpdates verifies the kind of documented updates; others are delivered unchanged.
// covers: channels/80
func TestKnownUpdates(t *testing.T) {
	for _, kind := range messenger.Known() {
		t.Run(kind, func(t *testing.T) {
			u := receive(t, `{"update_id":1,"`+kind+`":{"chat":{"id":3}}}`)
			m, err := u.Message()
			if want := strings.HasSuffix(kind, "message") && kind != "guest_message" || strings.HasSuffix(kind, "post"); (m != nil) != want || err != nil || u.Kind() != kind {
				t.Errorf("got kind %q, message %+v, %v", u.Kind(), m, err)
			}
		})
	}
	u := receive(t, `{"update_id":1,"of_tomorrow":{"chat":{"id":3}}}`)
	if m, err := u.Message(); u.Kind() != "" || m != nil || err != nil {
		t.Errorf("unknown update: got %q, %+v, %v", u.Kind(), m, err)
	}
	if _, err := receive(t, `{"update_id":1,"message":"text"}`).Message(); err == nil {
		t.Error("invalid message: got no error, want one")
	}
}

// covers: channels/81, channels/82, channels/183
func TestRefOfMessage(t *testing.T) {
	for body, want := range map[string]messenger.ConversationRef{
		`{"update_id":1,"message":{"chat":{"id":-100,"type":"supergroup"},"message_thread_id":42,"reply_to_message":{"message_id":42}}}`: {Type: messenger.TypeChat, ChatID: -100},
		message: {Type: messenger.TypeChat, ChatID: -100, MessageThreadID: 42},
		`{"update_id":1,"business_message":{"business_connection_id":"b","chat":{"id":3}}}`:                 {Type: messenger.TypeBusinessChat, BusinessConnectionID: "b", ChatID: 3},
		`{"update_id":1,"channel_post":{"chat":{"id":3},"direct_messages_topic":{"topic_id":9,"user":{}}}}`: {Type: messenger.TypeChat, ChatID: 3, DirectMessagesTopicID: 9},
	} {
		m, err := receive(t, body).Message()
		if err != nil || m.Ref() != want {
			t.Errorf("%s: got chat %+v, %v", body, m.Ref(), err)
		}
	}
	for _, body := range []string{
		`{"update_id":1,"callback_query":{"id":"capability","data":"x"}}`, `{"update_id":1,"guest_message":{"guest_query_id":"capability","chat":{"id":3}}}`,
	} {
		if m, err := receive(t, body).Message(); m != nil || err != nil {
			t.Errorf("%s: got message %+v, %v, want none", body, m, err)
		}
	}
}

// covers: channels/83, channels/87, upgrade/13
func TestInstanceID(t *testing.T) {
	for want, ref := range map[string]messenger.ConversationRef{
		"messenger:v1:regular:chat:998201:thread::direct:":                    {Type: messenger.TypeChat, ChatID: 998201},
		"messenger:v1:regular:chat:-100:thread:42:direct:":                    {Type: messenger.TypeChat, ChatID: -100, MessageThreadID: 42},
		"messenger:v1:regular:chat:1:thread::direct:9007199254740991":         {Type: messenger.TypeChat, ChatID: 1, DirectMessagesTopicID: 1<<53 - 1},
		"messenger:v1:business:business%3Acyan:chat:998201:thread::direct:":   {Type: messenger.TypeBusinessChat, BusinessConnectionID: "business:cyan", ChatID: 998201},
		"messenger:v1:business:%C3%A9%20%2F-_.!~*'():chat:1:thread:2:direct:": {Type: messenger.TypeBusinessChat, BusinessConnectionID: "é /-_.!~*'()", ChatID: 1, MessageThreadID: 2},
	} {
		got, err := messenger.InstanceID(ref)
		if err != nil || got != want {
			t.Errorf("%+v: got %q, %v, want %q", ref, got, err, want)
		}
		back, err := messenger.ParseInstanceID(got)
		if err != nil || back != ref {
			t.Errorf("%q: got %+v, %v", got, back, err)
		}
		// The names of the beta line are aliases.
		if key, err := messenger.ConversationKey(ref); err != nil || key != got {
			t.Errorf("got key %q, %v", key, err)
		}
		if back, err := messenger.ParseConversationKey(got); err != nil || back != ref {
			t.Errorf("got key of %+v, %v", back, err)
		}
	}
	// The connection is ignored for other chats.
	if got, err := messenger.InstanceID(messenger.ConversationRef{Type: messenger.TypeChat, ChatID: 1, BusinessConnectionID: "b"}); err != nil || strings.Contains(got, "b:") {
		t.Errorf("got %q, %v", got, err)
	}
}

// covers: upgrade/14, channels/84 conversation.topic, channels/85 conversation.businessConnectionId
// covers: channels/85 conversation.chatId, channels/85 conversation.type
func TestInstanceIDInput(t *testing.T) {
	const most = 1<<53 - 1
	chat := messenger.TypeChat
	for field, refs := range map[string][]messenger.ConversationRef{
		"conversation.type":                  {{ChatID: 1}, {Type: "group", ChatID: 1}, {Type: "group"}},
		"conversation.chatId":                {{Type: chat}, {Type: chat, ChatID: most + 1}, {Type: chat, ChatID: -most - 1}, {Type: chat, MessageThreadID: -1}},
		"conversation.messageThreadId":       {{Type: chat, ChatID: 1, MessageThreadID: -1}, {Type: chat, ChatID: 1, MessageThreadID: most + 1}},
		"conversation.directMessagesTopicId": {{Type: chat, ChatID: 1, DirectMessagesTopicID: -1}, {Type: chat, ChatID: 1, DirectMessagesTopicID: most + 1}},
		"conversation.topic":                 {{Type: chat, ChatID: 1, MessageThreadID: 1, DirectMessagesTopicID: 1}},
		"conversation.businessConnectionId":  {{Type: messenger.TypeBusinessChat, ChatID: 1}, {Type: messenger.TypeBusinessChat, ChatID: 1, BusinessConnectionID: "\xed\xa0\x80"}},
	} {
		t.Run(field, func(t *testing.T) {
			for _, ref := range refs {
				var invalid *messenger.InvalidInputError
				if id, err := messenger.InstanceID(ref); !errors.As(err, &invalid) || invalid.Field != field {
					t.Errorf("%+v: got %q, %v", ref, id, err)
				}
			}
		})
	}
}

// covers: channels/86, channels/87, upgrade/13
func TestParseInstanceIDIsCanonical(t *testing.T) {
	for _, id := range []string{
		"", "messenger:v1:regular:chat:01:thread::direct:", "messenger:v1:regular:chat:+1:thread::direct:", "messenger:v1:regular:chat:-0:thread::direct:",
		"messenger:v1:regular:chat:0:thread::direct:", "messenger:v1:regular:chat:1:thread:0:direct:", "messenger:v1:regular:chat:1:thread:1:direct:1",
		"messenger:v1:regular:chat:1:thread:01:direct:", "messenger:v1:regular:chat:9007199254740992:thread::direct:",
		"messenger:v1:regular:chat:99999999999999999999:thread::direct:", "messenger:v1:regular:chat:1:thread::direct", "messenger:v1:regular:chat:1:thread::direct::",
		"messenger:v1:business::chat:1:thread::direct:", "messenger:v1:business:a%3ab:chat:1:thread::direct:", "messenger:v1:business:%61:chat:1:thread::direct:",
		"messenger:v1:business:a b:chat:1:thread::direct:", "messenger:v1:business:%:chat:1:thread::direct:", "messenger:v1:business:%ED%A0%80:chat:1:thread::direct:",
		"messenger:v2:regular:chat:1:thread::direct:", "other:v1:regular:chat:1:thread::direct:", "messenger:v1:regular:chat:1:thread::direct:\n",
		"messenger:v1:regular:chat%3A1:thread::direct:", "messenger:v1:regular:chat:%31:thread::direct:",
	} {
		var invalid *messenger.InvalidInstanceIDError
		if ref, err := messenger.ParseInstanceID(id); !errors.As(err, &invalid) {
			t.Errorf("%q: got %+v, %v", id, ref, err)
		}
		var beta *messenger.InvalidConversationKeyError
		if _, err := messenger.ParseConversationKey(id); !errors.As(err, &beta) || id != "" && strings.Contains(err.Error(), id) {
			t.Errorf("ParseConversationKey: got error %v", err)
		}
	}
}

// covers: channels/74 no_secret_token, channels/74 secret_too_long, channels/74 secret_with_a_space
// covers: channels/75 negative_limit, channels/75 no_webhook, channels/75 nothing
func TestMessengerOptions(t *testing.T) {
	hook := func(context.Context, messenger.Incoming) (any, error) { return nil, nil }
	for name, tt := range map[string]struct {
		opts  *messenger.Options
		field string
	}{
		"nothing":             {nil, "options"},
		"no secret token":     {&messenger.Options{Webhook: hook}, "secretToken"},
		"secret with a space": {&messenger.Options{SecretToken: "with space", Webhook: hook}, "secretToken"},
		"secret too long":     {&messenger.Options{SecretToken: channels.Secret(strings.Repeat("a", 257)), Webhook: hook}, "secretToken"},
		"secret with a line":  {&messenger.Options{SecretToken: "a\n", Webhook: hook}, "secretToken"},
		"no webhook":          {&messenger.Options{SecretToken: secret}, "webhook"},
		"negative limit":      {&messenger.Options{SecretToken: secret, Webhook: hook, BodyLimit: -1}, "bodyLimit"},
	} {
		t.Run(name, func(t *testing.T) {
			var invalid *messenger.InvalidInputError
			if _, err := messenger.New(tt.opts); !errors.As(err, &invalid) || invalid.Field != tt.field || !strings.Contains(err.Error(), tt.field) {
				t.Errorf("got error %v, want one about %s", err, tt.field)
			}
		})
	}
	if _, err := messenger.New(&messenger.Options{SecretToken: channels.Secret(strings.Repeat("a", 256)), Webhook: hook}); err != nil {
		t.Errorf("256 characters: got error %v", err)
	}
}

// covers: channels/86, upgrade/14
func FuzzInstanceID(f *testing.F) {
	f.Add("messenger:v1:business:business%3Acyan:chat:-998201:thread:4:direct:")
	f.Add("messenger:v1:regular:chat:1:thread::direct:7")
	f.Fuzz(func(t *testing.T, id string) {
		ref, err := messenger.ParseInstanceID(id)
		if err != nil {
			return
		}
		if again, err := messenger.InstanceID(ref); err != nil || again != id {
			t.Errorf("%q: got %+v, which encodes to %q, %v", id, ref, again, err)
		}
	})
}

// covers: channels/182
func TestOmit(t *testing.T) {
	const person = `"chat":{"id":900,"type":"private"},"from":{"id":900,"is_bot":false}`
	for body, want := range map[string]string{
		`"message":{` + person + `}`: "", `"business_message":{"business_connection_id":"b",` + person + `}`: "", `"channel_post":{"chat":{"id":3}}`: "",
		`"message":{"chat":{"id":-3},"from":{"id":1087968824,"is_bot":true},"sender_chat":{"id":-3}}`:                                                     "",
		`"business_message":{"business_connection_id":"b","chat":{"id":900},"from":{"id":1,"is_bot":false},"sender_business_bot":{"id":9,"is_bot":true}}`: "bot",
		`"message":{"chat":{"id":-3},"from":{"id":8,"is_bot":true}}`:                                                                                      "bot",
		`"business_message":{"business_connection_id":"b","chat":{"id":900},"from":{"id":1}}`:                                                             "owner",
		`"message":{"chat":{"id":-3},"from":{"id":777000},"is_automatic_forward":true}`:                                                                   "forward",
		`"edited_message":{` + person + `}`: "edited", `"edited_business_message":{` + person + `}`: "edited", `"edited_channel_post":{"chat":{"id":3}}`: "edited",
	} {
		u := receive(t, `{"update_id":1,`+body+`}`)
		m, err := u.Message()
		if err != nil || m == nil {
			t.Fatalf("%s: got message %v, %v", body, m, err)
		}
		if got := u.Omit(m); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}
