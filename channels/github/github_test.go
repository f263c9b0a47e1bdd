package github_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/channeltest"
	"github.com/parleyrun/parley/channels/github"
)

const (
	secret = "It's a Secret to Everybody"
	opened = `{"action":"opened","issue":{"number":7,"title":"t"},"repository":{"name":"r","owner":{"login":"o"}}}`
)

func sign(body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func headers(h http.Header, event string) {
	h.Set("X-GitHub-Event", event)
	h.Set("X-GitHub-Delivery", "d-1")
	h.Set("X-GitHub-Hook-ID", "9")
}

func made(t testing.TB, limit int64, callback func(context.Context, github.Incoming) (any, error)) *github.Channel {
	t.Helper()
	c, err := github.New(&github.Options{Secret: secret, BodyLimit: limit, Webhook: callback})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// covers: channels/105 failures, channels/105 limit, channels/105 media_type, channels/105 order_of_checks
// covers: channels/105 proof, channels/105 results, channels/105 routing, channels/105 slow_sender
func TestGitHubSuite(t *testing.T) {
	channeltest.Run(t, channeltest.Subject{
		New: func(t testing.TB, callback channels.Call, limit int64) channels.Channel {
			return made(t, limit, func(ctx context.Context, _ github.Incoming) (any, error) { return callback(ctx) })
		},
		Path: "/webhook", MediaType: "application/json", Body: opened,
		Pad: func(body string, by int) string { return body + strings.Repeat(" ", by) },
		Prove: func(h http.Header, body []byte) {
			headers(h, "issues")
			h.Set("X-Hub-Signature-256", sign(body))
		},
		Header:    "X-Hub-Signature-256",
		Malformed: []string{"x", "sha256=", "sha1=" + strings.Repeat("0", 40), "sha256=" + strings.Repeat("g", 64)},
		Forged:    []string{"sha256=" + strings.Repeat("0", 64)},
		Broken:    map[string]string{"empty": "", "not JSON": "{", "array": "[]", "null": "null", "not UTF-8": "{\"a\":\"\xff\"}"},
		Order: []channeltest.Fault{
			channeltest.MediaType, channeltest.MalformedLength, channeltest.Declared, channeltest.Missing, channeltest.Malformed,
			channeltest.Streamed, channeltest.Forged, channeltest.Broken,
		},
	})
}

func send(t *testing.T, c *github.Channel, event, body string, change func(http.Header)) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/webhook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	headers(r.Header, event)
	r.Header.Set("X-Hub-Signature-256", sign([]byte(body)))
	if change != nil {
		change(r.Header)
	}
	w := httptest.NewRecorder()
	c.Route().ServeHTTP(w, r)
	return w.Code
}

// covers: channels/118, channels/119, channels/120
func TestGitHubDeliveries(t *testing.T) {
	var got []github.Incoming
	c := made(t, 0, func(_ context.Context, in github.Incoming) (any, error) { got = append(got, in); return nil, nil })
	// The example of the platform's documentation verifies, and is not JSON.
	if sign([]byte("Hello, World!")) != "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17" || send(t, c, "push", "Hello, World!", nil) != 400 {
		t.Error("example of the documentation: got a rejection or no signature match")
	}
	for _, missing := range []string{"X-GitHub-Event", "X-GitHub-Delivery"} {
		if status := send(t, c, "issues", opened, func(h http.Header) { h.Del(missing) }); status != 400 {
			t.Errorf("without %s: got %d", missing, status)
		}
	}
	if status := send(t, c, "ping", `{"zen":"Keep it logically awesome."}`, nil); status != 200 || len(got) != 0 {
		t.Errorf("ping: got %d and %d calls", status, len(got))
	}
	send(t, c, "issues", opened, nil)
	in := got[0]
	if ref, ok := in.Ref(); in.Event != "issues" || in.Action != "opened" || in.DeliveryID != "d-1" || in.HookID != "9" || string(in.Native) != opened || !ok || ref != (github.Ref{Owner: "o", Repo: "r", Issue: 7}) {
		t.Errorf("got delivery %+v of %+v", in, ref)
	}
	send(t, c, "pull_request", strings.Replace(opened, "issue", "pull_request", 1), nil)
	if ref, ok := got[1].Ref(); !ok || ref.Issue != 7 {
		t.Errorf("pull request: got %+v", ref)
	}
	send(t, c, "push", `{}`, nil)
	if ref, ok := got[2].Ref(); ok {
		t.Errorf("push: got %+v", ref)
	}
}

// covers: channels/121
func TestGitHubOptions(t *testing.T) {
	hook := func(context.Context, github.Incoming) (any, error) { return nil, nil }
	for field, opts := range map[string]*github.Options{
		"options": nil, "secret": {Webhook: hook}, "webhook": {Secret: secret}, "bodyLimit": {Secret: secret, Webhook: hook, BodyLimit: -1},
	} {
		var invalid *channels.InputError
		if _, err := github.New(opts); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("got error %v, want one about %s", err, field)
		}
	}
}

// covers: channels/120
func TestGitHubInstanceID(t *testing.T) {
	ref := github.Ref{Owner: "o", Repo: "r.x", Issue: 7}
	id, err := github.InstanceID(ref)
	if err != nil || id != "github:v1:owner:o:repo:r.x:issue:7" {
		t.Errorf("got %q, %v", id, err)
	}
	if back, err := github.ParseInstanceID(id); err != nil || back != ref {
		t.Errorf("got %+v, %v", back, err)
	}
	for field, ref := range map[string]github.Ref{
		"conversation.owner": {Repo: "r", Issue: 1}, "conversation.repo": {Owner: "o", Issue: 1}, "conversation.issue": {Owner: "o", Repo: "r"}, "conversation": {Owner: "\xff", Repo: "r", Issue: 1},
	} {
		var invalid *channels.InputError
		if _, err := github.InstanceID(ref); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%+v: %v", ref, err)
		}
	}
	for _, id := range []string{"", "github:v1:owner:o:repo:r:issue:07", "github:v1:owner:o:repo:r:issue:+7", "github:v1:owner:o:repos:r:issue:7", "github:v1:owner::repo:r:issue:7", "github:v1:owner:o:repo:r:issue:7:8"} {
		var invalid *channels.InstanceIDError
		if ref, err := github.ParseInstanceID(id); !errors.As(err, &invalid) {
			t.Errorf("%q: got %+v, %v", id, ref, err)
		}
	}
}

// covers: channels/192
func TestGitHubOfBot(t *testing.T) {
	const bot, user = `{"sender":{"type":"Bot"}}`, `{"sender":{"type":"User"}}`
	for _, c := range []struct {
		event, native string
		want          bool
	}{
		{"issue_comment", bot, true}, {"pull_request_review", bot, true}, {"pull_request_review_comment", bot, true}, {"issue_comment", user, false},
		{"issues", bot, false}, {"pull_request", bot, false},
	} {
		in := github.Incoming{Event: c.event, Native: []byte(c.native)}
		if got := in.OfBot(); got != c.want {
			t.Errorf("%s %s: got %t, want %t", c.event, c.native, got, c.want)
		}
	}
}
