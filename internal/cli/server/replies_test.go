package server

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"crypto/sha256"

	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/outbox"
)

// TestDeclaredReplies: a bot that answers in its thread needs no Go.
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
	conf, err := config.Parse("parley.yaml", []byte(`agents: {echo: {mounts: [/agents/echo], model: demo/parrot}}
channels: {bot: {kind: slack, agent: echo, secretEnv: S, reply: {tokenEnv: T, url: "`+platform.URL+`"}}}
`), &config.Options{Env: func(name string) (string, bool) {
		v, ok := map[string]string{"S": "a-secret", "T": "bot-token"}[name]
		return v, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	conf.Bucket.Dir = t.TempDir()
	n, err := newConfigured(t.Context(), conf, thisMachine, manner{program: &cli.Program{}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	<-n.runtime.Ready()
	body := `{"type":"event_callback","team_id":"T","event_id":"Ev1","event":{"type":"app_mention","user":"U","text":"Hello bot","channel":"C","ts":"17.5"}}`
	now := strconv.FormatInt(time.Now().Unix(), 10)
	r := httptest.NewRequest(http.MethodPost, "/channels/bot/events", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Slack-Request-Timestamp", now)
	r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac(sha256.New, "v0:", now, ":", body)))
	w := httptest.NewRecorder()
	if n.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Fatalf("the webhook is answered %d %s", w.Code, w.Body)
	}
	got := <-calls // the test's own time-out is the limit
	if got.path != "/chat.postMessage" || got.auth != "Bearer bot-token" || got.channel != "C" || got.thread != "17.5" || !strings.Contains(got.text, "Hello bot") {
		t.Errorf("the platform was sent %+v", got)
	}
	// A caller chooses the id, and the bot speaks to no chat for it.
	r = httptest.NewRequest(http.MethodPost, "/agents/echo/slack:v1:T1:C667:1.2", strings.NewReader(`{"kind":"user","body":"Hello"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Parley-Notify", "channels.bot")
	w = httptest.NewRecorder()
	if n.handler.ServeHTTP(w, r); w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "channels") {
		t.Errorf("a caller that names the bot is answered %d %s, want 400 and no name", w.Code, w.Body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
	own := map[string]outbox.Target{"channels.bot": outbox.Func(func(context.Context, outbox.Post) error { return nil })}
	if _, err := targetsOf(own, conf.Channels); err == nil || !strings.Contains(err.Error(), `the program has a target "channels.bot"`) {
		t.Errorf("two targets of one name: %v", err)
	}
}
