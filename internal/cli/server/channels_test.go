package server

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
	"github.com/parleyrun/parley/channels/messenger"
	"github.com/parleyrun/parley/conversation"
	"github.com/parleyrun/parley/internal/admin"
	"github.com/parleyrun/parley/internal/cli"
	"github.com/parleyrun/parley/internal/config"
)

// Webhooks need no token of the server, unlike all other requests, and are admitted and counted.
// covers: channels/100, channels/103
func TestChannelsOfAProgram(t *testing.T) {
	p := &cli.Program{Channels: func(d conversation.Dispatcher) (map[string]channels.Channel, error) {
		bot, err := messenger.New(&messenger.Options{SecretToken: "s", Webhook: func(ctx context.Context, in messenger.Incoming) (any, error) {
			_, err := channels.Deliver(ctx, d, channels.Delivery{Channel: "messenger", Agent: "echo", InstanceID: "c", DeliveryID: "1", Text: "hello"})
			return nil, err
		}})
		return map[string]channels.Channel{"bot": bot}, err
	}}
	conf := named("echo")
	conf.Bucket.Dir, conf.Auth = t.TempDir(), config.Auth{Bearer: "of the server"}
	n, err := newConfigured(t.Context(), conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: p}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }()
	<-n.runtime.Ready()
	h := guarded(pageOf{conf: conf, how: manner{program: p}}, n.handler)
	for _, tt := range []struct {
		method, path, secret string
		want                 int
	}{
		{"POST", "/channels/bot/webhook", "s", 200}, {"POST", "/channels/bot/webhook", "s", 200}, {"POST", "/channels/bot/webhook", "", 401},
		{"GET", "/channels/bot/webhook", "", 405}, {"POST", "/channels/bot", "s", 401}, {"POST", "/channels/other/webhook", "s", 401}, {"GET", "/echo/c", "s", 401},
	} {
		r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(`{"update_id":1}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(messenger.DefaultSecretHeader, tt.secret)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s %s is %d %s, want %d", tt.method, tt.path, w.Code, w.Body, tt.want)
		}
	}
	want := []admin.Deliveries{{Channel: "bot", Result: "admitted", Count: 1}, {Channel: "bot", Result: "duplicate", Count: 1}, {Channel: "bot", Result: "rejected", Count: 1}}
	listener, err := openListener("127.0.0.1:0", "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if got := n.process(listener).Deliveries; !reflect.DeepEqual(got, want) {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
	// A channel that cannot be created prevents the start, and the error names it.
	p.Channels = func(conversation.Dispatcher) (map[string]channels.Channel, error) {
		_, err := messenger.New(&messenger.Options{})
		return nil, err
	}
	if _, err := newConfigured(t.Context(), conf, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, manner{program: p}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "messenger channel: secretToken") {
		t.Errorf("error %v", err)
	}
}
