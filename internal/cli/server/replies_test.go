package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/outbox"
)

// A bot that replies in its thread needs no Go code.
func TestDeclaredReplies(t *testing.T) {
	type call struct{ path, auth, channel, thread, text string }
	calls := make(chan call, 8)
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			Channel string `json:"channel"`
			Thread  string `json:"thread_ts"`
			Text    string `json:"text"`
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		calls <- call{r.URL.Path, r.Header.Get("Authorization"), m.Channel, m.Thread, m.Text}
		_, _ = w.Write([]byte(`{"ok":true,"ts":"1.1"}`))
	}))
	defer platform.Close()
	conf, n := declaredNode(t, `{kind: slack, agent: echo, secretEnv: S, reply: {tokenEnv: T, url: "`+platform.URL+`"}}`)
	body := `{"type":"event_callback","team_id":"T","event_id":"Ev1","event":{"type":"app_mention","user":"U","text":"Hello bot","channel":"C","ts":"17.5"}}`
	postEvent(t, n, body)
	got := <-calls // the timeout of the test is the limit
	if got.path != "/chat.postMessage" || got.auth != "Bearer bot-token" || got.channel != "C" || got.thread != "17.5" || !strings.Contains(got.text, "Hello bot") {
		t.Errorf("the platform was sent %+v", got)
	}
	// A caller chooses the id, so the bot posts to no chat for it.
	r := httptest.NewRequest(http.MethodPost, "/agents/echo/slack:v1:T1:C667:1.2", strings.NewReader(`{"kind":"user","body":"Hello"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Parley-Notify", "channels.bot")
	w := httptest.NewRecorder()
	if n.handler.ServeHTTP(w, r); w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "channels") {
		t.Errorf("a caller that names the bot is answered %d %s, want 400 and no name", w.Code, w.Body)
	}
	own := map[string]outbox.Target{"channels.bot": outbox.Func(func(context.Context, outbox.Post) error { return nil })}
	if _, err := targetsOf(own, conf.Channels); err == nil || !strings.Contains(err.Error(), `the program has a target "channels.bot"`) {
		t.Errorf("two targets of one name: %v", err)
	}
}

// declaredNode runs a node with a declared channel named bot until the test ends.
func declaredNode(t *testing.T, channel string) (*config.Server, *backend) {
	t.Helper()
	conf, err := config.Parse("parley.yaml", []byte("agents: {echo: {mounts: [/agents/echo], model: demo/parrot}}\nchannels: {bot: "+channel+"}\n"), &config.Options{
		Env: func(name string) (string, bool) {
			v, ok := map[string]string{"S": "a-secret", "T": "bot-token"}[name]
			return v, ok
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	conf.Bucket.Dir = t.TempDir()
	n, err := newConfigured(t.Context(), conf, thisMachine, manner{program: &cli.Program{}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	<-n.runtime.Ready()
	return conf, n
}

// postEvent sends an event to the channel as Slack does.
func postEvent(t *testing.T, n *backend, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/channels/bot/events", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for name, value := range slacked(body) {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	if n.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Fatalf("the webhook is answered %d %s", w.Code, w.Body)
	}
}

// Two channels of a team share a conversation, and each gets the replies to its own messages.
// covers: channels/195
func TestDeclaredInstanceWithReply(t *testing.T) {
	calls := make(chan string, 8)
	platform := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Channel, Text string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		calls <- m.Channel + " " + m.Text
		_, _ = w.Write([]byte(`{"ok":true,"ts":"1.1"}`))
	}))
	defer platform.Close()
	_, n := declaredNode(t, `{kind: slack, agent: echo, secretEnv: S, instance: "{team_id}", reply: {tokenEnv: T, url: "`+platform.URL+`"}}`)
	for _, channel := range []string{"C1", "C2"} {
		postEvent(t, n, `{"type":"event_callback","team_id":"T","event_id":"`+channel+`","event":{"type":"message","user":"U","text":"Hello from `+channel+`","channel":"`+channel+`","ts":"17.5"}}`)
	}
	for _, channel := range []string{"C1", "C2"} {
		if got := <-calls; !strings.HasPrefix(got, channel+" ") || !strings.Contains(got, "Hello from "+channel) {
			t.Errorf("the platform was sent %q, want the reply to %s there", got, channel)
		}
	}
	// An event without a message has no destination for a reply.
	postEvent(t, n, `{"type":"event_callback","team_id":"T","event_id":"E3","event":{"type":"team_join"}}`)
}
