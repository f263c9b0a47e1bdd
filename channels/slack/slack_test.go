package slack_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/slack"
)

const (
	secret      = "8f742231b10e8888abcd99yyyzzz85a5"
	event       = `{"type":"event_callback","team_id":"T1","event_id":"Ev1","event":{"type":"message","channel":"C1","user":"U1","text":"Hi","ts":"171.1"}}`
	interaction = `payload=%7B%22type%22%3A%22block_actions%22%7D`
	command     = "command=%2Fask&text=why&team_id=T1&channel_id=C1&user_id=U1&user_name=ada&response_url=https%3A%2F%2Fhooks%2F1&trigger_id=1.2"
	formType    = "application/x-www-form-urlencoded"
)

func prove(h http.Header, body []byte, at time.Time) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + stamp + ":"))
	mac.Write(body)
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}

// all returns a channel with all routes and one callback.
func all(t testing.TB, callback channels.Call, limit int64) channels.Channel {
	t.Helper()
	c, err := slack.New(&slack.Options{
		SigningSecret: secret, BodyLimit: limit,
		Events:       func(ctx context.Context, _ slack.Event) (any, error) { return callback(ctx) },
		Interactions: func(ctx context.Context, _ slack.Interaction) (any, error) { return callback(ctx) },
		Commands:     func(ctx context.Context, _ slack.Command) (any, error) { return callback(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// covers: channels/104 failures, channels/104 limit, channels/104 media_type, channels/104 order_of_checks
// covers: channels/104 proof, channels/104 results, channels/104 routing, channels/104 slow_sender
// covers: channels/114 no_event_id, channels/114 untyped_event
func TestSlackSuite(t *testing.T) {
	padForm := func(body string, by int) string { return body + "&p=" + strings.Repeat("x", by-3) }
	for path, s := range map[string]channeltest.Subject{
		"/events": {
			MediaType: "application/json", Body: event, Pad: func(body string, by int) string { return body + strings.Repeat(" ", by) },
			Broken: map[string]string{
				"empty": "", "not JSON": "{", "no type": `{"event":{}}`, "no event id": `{"type":"event_callback","event":{"type":"message"}}`,
				"no event": `{"type":"event_callback","event_id":"1"}`, "untyped event": `{"type":"event_callback","event_id":"1","event":{}}`,
				"no challenge": `{"type":"url_verification"}`,
			},
		},
		"/interactions": {
			MediaType: formType, Body: interaction, Pad: padForm,
			Broken: map[string]string{"empty": "", "no payload": "a=b", "two payloads": interaction + "&" + interaction, "not JSON": "payload=%7B", "untyped": "payload=%7B%7D", "no form": "payload=%zz"},
		},
		"/commands": {
			MediaType: formType, Body: command, Pad: padForm,
			Broken: map[string]string{"empty": "", "no command": "text=why", "no form": "command=%zz"},
		},
	} {
		t.Run(path[1:], func(t *testing.T) {
			s.New, s.Path, s.Header = all, path, "X-Slack-Signature"
			s.Prove = func(h http.Header, body []byte) { prove(h, body, time.Now()) }
			s.Malformed = []string{"x", "v0=", "v1=" + strings.Repeat("0", 64), "v0=" + strings.Repeat("g", 64), strings.Repeat("0", 64)}
			s.Forged = []string{"v0=" + strings.Repeat("0", 64)}
			s.Order = []channeltest.Fault{
				channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
				channeltest.Streamed, channeltest.Forged, channeltest.Broken,
			}
			channeltest.Run(t, s)
		})
	}
}

// send sends a request whose timestamp is off by a duration.
func send(t *testing.T, c channels.Channel, path, mediaType, body string, off time.Duration) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	channels.Handle(mux, "", c)
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	prove(r.Header, []byte(body), time.Now().Add(off))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

// covers: channels/111
func TestSlackFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for off, want := range map[time.Duration]int{
			0: 200, -300 * time.Second: 200, 300 * time.Second: 200, -301 * time.Second: 401, 301 * time.Second: 401,
		} {
			c := all(t, func(context.Context) (any, error) { return nil, nil }, 0)
			if got := send(t, c, "/events", "application/json", event, off); got.Code != want {
				t.Errorf("off by %v: got %d, want %d", off, got.Code, want)
			}
		}
	})
}

// covers: channels/112
func TestSlackVector(t *testing.T) {
	const body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&" +
		"user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&" +
		"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(1531420618, 0)))
		called := 0
		c := all(t, func(context.Context) (any, error) { called++; return nil, nil }, 0)
		r := httptest.NewRequest(http.MethodPost, "/commands", strings.NewReader(body))
		r.Header = http.Header{
			"Content-Type": {formType}, "X-Slack-Request-Timestamp": {"1531420618"},
			"X-Slack-Signature": {"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
		}
		w := httptest.NewRecorder()
		mux := http.NewServeMux()
		channels.Handle(mux, "", c)
		if mux.ServeHTTP(w, r); w.Code != 200 || called != 1 {
			t.Errorf("got %d and %d calls", w.Code, called)
		}
	})
}

// covers: channels/113, channels/115
func TestSlackRequests(t *testing.T) {
	var got any
	c, err := slack.New(&slack.Options{
		SigningSecret: secret,
		Events:        func(_ context.Context, in slack.Event) (any, error) { got = in; return nil, nil },
		Interactions:  func(_ context.Context, in slack.Interaction) (any, error) { got = in; return nil, nil },
		Commands:      func(_ context.Context, in slack.Command) (any, error) { got = in; return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := send(t, c, "/events", "application/json", `{"type":"url_verification","challenge":"abc"}`, 0)
	if w.Code != 200 || w.Body.String() != `{"challenge":"abc"}` || got != nil {
		t.Errorf("URL verification: got %d %s, %v", w.Code, w.Body, got)
	}
	send(t, c, "/events", "application/json", event, 0)
	e := got.(slack.Event)
	if m := e.Message(); e.EventID != "Ev1" || e.EventType != "message" || string(e.Native) != event || m.Text != "Hi" || m.Ref(e.TeamID) != (slack.Ref{Team: "T1", Channel: "C1", ThreadTS: "171.1"}) {
		t.Errorf("got event %+v", e)
	}
	send(t, c, "/events", "application/json", `{"type":"app_rate_limited","minute":1}`, 0)
	if e := got.(slack.Event); e.Type != "app_rate_limited" || e.Message() != nil {
		t.Errorf("other request: got %+v", e)
	}
	send(t, c, "/interactions", formType, interaction, 0)
	if i := got.(slack.Interaction); i.Type != "block_actions" || string(i.Native) != `{"type":"block_actions"}` {
		t.Errorf("got interaction %+v", i)
	}
	send(t, c, "/commands", formType, command, 0)
	if x := got.(slack.Command); x.Command != "/ask" || x.Text != "why" || x.ResponseURL != "https://hooks/1" || x.Native.Get("user_name") != "ada" {
		t.Errorf("got command %+v", x)
	}
}

// covers: channels/116
func TestSlackOptions(t *testing.T) {
	hook := func(context.Context, slack.Event) (any, error) { return nil, nil }
	for field, opts := range map[string]*slack.Options{
		"options": nil, "signingSecret": {Events: hook}, "events": {SigningSecret: secret}, "bodyLimit": {SigningSecret: secret, Events: hook, BodyLimit: -1},
	} {
		var invalid *channels.InputError
		if _, err := slack.New(opts); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("got error %v, want one about %s", err, field)
		}
	}
	c, err := slack.New(&slack.Options{SigningSecret: secret, Events: hook})
	if err != nil || len(c.Routes()) != 1 {
		t.Errorf("got %d routes, %v", len(c.Routes()), err)
	}
}

// covers: channels/117
func TestSlackInstanceID(t *testing.T) {
	ref := slack.Ref{Team: "T1", Channel: "C:1", ThreadTS: "171.1"}
	id, err := slack.InstanceID(ref)
	if err != nil || id != "slack:v1:T1:C%3A1:171.1" {
		t.Errorf("got %q, %v", id, err)
	}
	if back, err := slack.ParseInstanceID(id); err != nil || back != ref {
		t.Errorf("got %+v, %v", back, err)
	}
	for field, ref := range map[string]slack.Ref{
		"conversation.team": {Channel: "C", ThreadTS: "1"}, "conversation.channel": {Team: "T", ThreadTS: "1"}, "conversation.threadTs": {Team: "T", Channel: "C"},
		"conversation": {Team: "\xff", Channel: "C", ThreadTS: "1"},
	} {
		var invalid *channels.InputError
		if _, err := slack.InstanceID(ref); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", ref, err)
		}
	}
	for _, id := range []string{"", "slack:v1", "slack:v1:T:C", "slack:v1:T::1", "slack:v1:T:C:1:x", "slack:v2:T:C:1", "slack:v1:T:%43:1", "slack:v1:T:C%3a:1"} {
		var invalid *channels.InstanceIDError
		if ref, err := slack.ParseInstanceID(id); !errors.As(err, &invalid) {
			t.Errorf("%q: got %+v, %v", id, ref, err)
		}
	}
}
