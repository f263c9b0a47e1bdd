package server

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/config"
	"github.com/parleyrun/parley/outbox"
)

// Invalid targets are rejected, and no error contains a secret.
func TestOutboxOf(t *testing.T) {
	good := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, c := range map[string]struct {
		conf config.Webhooks
		own  map[string]outbox.Target
		want string
	}{
		"a target":     {config.Webhooks{Targets: map[string]config.Webhook{"a": {URL: "https://a.example", Secrets: []string{good, good}}}}, nil, ""},
		"a secret":     {config.Webhooks{Targets: map[string]config.Webhook{"a": {URL: "https://a.example", Secrets: []string{"hunter2"}}}}, nil, `webhooks.targets.a: invalid webhook secret: want "whsec_"`},
		"a URL":        {config.Webhooks{Targets: map[string]config.Webhook{"a": {URL: "hunter2"}}}, nil, "webhooks.targets.a: invalid URL: scheme"},
		"two":          {config.Webhooks{Targets: map[string]config.Webhook{"a": {URL: "https://a.example"}}}, map[string]outbox.Target{"a": outbox.Func(nil)}, "the program has a target of that name"},
		"hosts":        {config.Webhooks{Allow: []string{"a.example"}, Secrets: []string{good}}, nil, ""},
		"their secret": {config.Webhooks{Allow: []string{"a.example"}, Secrets: []string{"hunter2"}}, nil, "webhooks: invalid webhook secret"},
	} {
		routes, end, err := outboxOf(c.conf, c.own)
		end()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && len(routes.Targets) == 0 && routes.URLs == nil {
			t.Errorf("%s: nothing is posted to", name)
		}
	}
}
