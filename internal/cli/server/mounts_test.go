package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

// bot returns a channel whose callback does nothing.
func bot(t *testing.T) *messenger.Channel {
	t.Helper()
	c, err := messenger.New(&messenger.Options{SecretToken: "s", Webhook: func(context.Context, messenger.Incoming) (any, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withMounts serves a program with a token.
func withMounts(t *testing.T, p *cli.Program) (http.Handler, *backend, *config.Server, error) {
	t.Helper()
	conf := named("echo")
	conf.Bucket.Dir, conf.Auth = t.TempDir(), config.Auth{Bearer: "of the server"}
	n, err := newConfigured(t.Context(), conf, thisMachine, manner{program: p}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, conf, err
	}
	t.Cleanup(func() { _ = n.close() })
	return guarded(pageOf{conf: conf, how: manner{program: p}}, n.handler), n, conf, nil
}

// A mounted route of a channel verifies its deliveries and needs no token of the server; every other
// handler does.
// covers: channels/170
func TestMountedWebhooks(t *testing.T) {
	inner, route := http.NewServeMux(), bot(t).Route()
	channels.Handle(inner, "/hooks/notes", bot(t))
	inner.Handle("/hooks/open", teapot())
	h, _, _, err := withMounts(t, &cli.Program{Mounts: map[string]http.Handler{
		"POST /channels/shop/webhook": bot(t).Route(), "/any": &route, "POST hooks.example.com/own": bot(t).Route(),
		"/hooks/": inner, "/tea": teapot(), "/wrapped": http.StripPrefix("/wrapped", bot(t).Route()),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, url, secret, token string
		want                       int
	}{
		{"POST", "/channels/shop/webhook", "s", "", 200}, {"POST", "/channels/shop/webhook", "x", "", 401}, {"POST", "/channels/shop/webhook?a=b", "s", "", 200},
		{"POST", "/channels/shop/web%68ook", "s", "", 200}, {"POST", "/any", "s", "", 200}, {"POST", "http://hooks.example.com/own", "s", "", 200},
		{"POST", "/hooks/notes/webhook", "s", "", 200}, {"POST", "/channels/shop/webhook", "", "", 401},
		{"POST", "/own", "s", "", 401}, {"GET", "/channels/shop/webhook", "s", "", 401}, {"POST", "/channels/shop/webhook/", "s", "", 401},
		{"POST", "/channels//shop/webhook", "s", "", 401}, {"POST", "/channels/other/webhook", "s", "", 401}, {"GET", "/hooks/open", "s", "", 401},
		{"GET", "/hooks/notes/webhook", "s", "", 401}, {"GET", "/tea", "s", "", 401}, {"POST", "/wrapped", "s", "", 401}, {"GET", "/echo/c", "s", "", 401},
		{"GET", "/tea", "", "of the server", http.StatusTeapot}, {"GET", "/hooks/open", "", "of the server", http.StatusTeapot},
		{"POST", "/wrapped", "s", "of the server", 200},
	} {
		r := httptest.NewRequest(tt.method, tt.url, strings.NewReader(`{"update_id":1}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(messenger.DefaultSecretHeader, tt.secret)
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s %s with the secret %q and the token %q: got %d %s, want %d", tt.method, tt.url, tt.secret, tt.token, w.Code, w.Body, tt.want)
		}
	}
}

// A start fails if a mount takes the webhooks of a listed channel, or if a pattern is invalid.
// covers: channels/171
func TestMountsConflictWithChannels(t *testing.T) {
	for pattern, want := range map[string]string{
		"POST /channels/shop/webhook": `the mount "POST /channels/shop/webhook" of the program takes /channels/shop/webhook, which belongs to the channel "shop"`,
		"/channels/shop/webhook":      "takes /channels/shop/webhook", "GET /channels/shop/webhook": "takes /channels/shop/webhook",
		"/channels/":                          "takes /channels/shop/webhook",
		"POST /channels/{name}/webhook":       "takes /channels/shop/webhook",
		"POST e.com/channels/shop/webhook":    "takes /channels/shop/webhook",
		"/channels/shop/webhook/":             "takes /channels/shop/webhook",
		"/":                                   "takes /channels/shop/webhook",
		"/channels/{a":                        "mounts of the program: ",
		"POST /channels/other/webhook":        "",
		"POST /channels/shop":                 "",
		"POST e.com/channels/other/webhook":   "",
		"POST /channels/shop/webhook/{$}":     "takes /channels/shop/webhook",
		"POST /channels/shop/webhooks/{rest}": "",
	} {
		_, _, _, err := withMounts(t, &cli.Program{
			Mounts: map[string]http.Handler{pattern: bot(t).Route()},
			Channels: func(conversation.Dispatcher) (map[string]channels.Channel, error) {
				return map[string]channels.Channel{"shop": bot(t)}, nil
			},
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
	p := &cli.Program{Mounts: map[string]http.Handler{"POST /channels/c/webhook": bot(t).Route()}}
	if _, err := channelsOf(p, []config.Channel{{Name: "c", Kind: config.KindMessenger, Secret: "s"}})(&taking{}); err == nil || !strings.Contains(err.Error(), `belongs to the channel "c"`) {
		t.Errorf("a channel of the configuration: %v", err)
	}
}

// The banner lists all webhooks, including those that a program lists or mounts.
// covers: channels/172
func TestWebhooksAreShown(t *testing.T) {
	p := &cli.Program{
		Mounts: map[string]http.Handler{"POST /channels/own/webhook": bot(t).Route(), "e.com/any": bot(t).Route(), "/tea": teapot()},
		Channels: func(conversation.Dispatcher) (map[string]channels.Channel, error) {
			return map[string]channels.Channel{"shop": bot(t)}, nil
		},
	}
	_, n, conf, err := withMounts(t, p)
	if err != nil {
		t.Fatal(err)
	}
	got, want := webhooksOf(p, n.handler, conf, thisMachine), []string{"Webhooks of the program:\n" +
		"  http://127.0.0.1:0/channels/shop/webhook  POST, channel \"shop\"\n" +
		"  http://127.0.0.1:0/channels/own/webhook  POST, mounted\n" +
		"  e.com/any  any method, mounted"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := webhooksOf(&cli.Program{}, n.handler, &config.Server{Channels: []config.Channel{{Name: "shop"}}}, thisMachine); got != nil {
		t.Errorf("those of the configuration are shown twice: %q", got)
	}
}
