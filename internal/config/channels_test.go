package config_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/internal/config"
)

const someAgent = "agents: {echo: {mounts: [/agents/echo], model: demo/parrot, instructions: x}}\n"

func parseChannels(t *testing.T, yaml string, env map[string]string) (*config.Server, error) {
	t.Helper()
	o := options()
	o.Env = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return config.Parse("parley.yaml", []byte(someAgent+yaml), o)
}

// covers: channels/145
func TestChannels(t *testing.T) {
	env := map[string]string{"S": "a-secret", "P": "an-older-one", "V": "a-token"}
	s, err := parseChannels(t, `channels:
  bot: {kind: slack, agent: echo, secretEnv: S}
  pages: {kind: notes, agent: echo, secretEnv: S, events: [page.created], instance: "{entity.id}", message: "{type}", signal: notes.event, attributes: {w: "{workspace_id}"}}
  shop: {kind: commerce, agent: echo, secretEnv: S, previousSecretEnv: P, instance: "shop-{id}", message: "{name}"}
  wa: {kind: whatsapp, agent: echo, secretEnv: S, verifyTokenEnv: V, reply: {tokenEnv: P, url: "https://graph.example.com/v1.0"}}
  sms: {kind: twilio, agent: echo, secretEnv: S, account: AC1, publicUrl: "https://example.com/channels/sms"}
`, env)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Channels) != 5 {
		t.Fatalf("%d channels", len(s.Channels))
	}
	bot, pages, shop, wa := s.Channels[0], s.Channels[1], s.Channels[2], s.Channels[3]
	if bot.Name != "bot" || bot.Kind != config.KindSlack || bot.Agent != "echo" || bot.Secret != "a-secret" || !bot.Instance.Zero() || !bot.Message.Zero() {
		t.Errorf("the bot is %+v", bot)
	}
	if text, _ := pages.Message.Render(map[string]any{"type": "page.created"}); text != "page.created" || pages.Signal != "notes.event" || len(pages.Attributes) != 1 || len(pages.Events) != 1 {
		t.Errorf("the pages are %+v", pages)
	}
	if shop.Previous != "an-older-one" || wa.VerifyToken != "a-token" {
		t.Errorf("the secrets are %q, %q", shop.Previous, wa.VerifyToken)
	}
	if want := (config.ChannelReply{Token: "an-older-one", URL: "https://graph.example.com/v1.0"}); bot.Reply != nil || wa.Reply == nil || *wa.Reply != want {
		t.Errorf("the replies are %+v, %+v", bot.Reply, wa.Reply)
	}
}

// covers: channels/150, channels/152 capability, channels/166 headers_of_slack
func TestChannelMistakes(t *testing.T) {
	for name, tt := range map[string]struct{ yaml, want string }{
		"reply of another kind":    {"channels: {g: {kind: github, agent: echo, secretEnv: S, message: x, reply: {tokenEnv: S}}}", "only messenger, slack, twilio and whatsapp support replies"},
		"reply without a token":    {"channels: {b: {kind: slack, agent: echo, secretEnv: S, reply: {url: \"https://e.com/api\"}}}", "channels.b.reply.tokenEnv: is missing"},
		"reply without a URL":      {"channels: {b: {kind: messenger, agent: echo, secretEnv: S, reply: {tokenEnv: S}}}", "channels.b.reply.url: is missing"},
		"reply with two URLs":      {"channels: {b: {kind: slack, agent: echo, secretEnv: S, reply: {tokenEnv: S, url: \"https://e.com/api\", urlEnv: S}}}", "keep url, or urlEnv"},
		"reply to a bad URL":       {"channels: {b: {kind: slack, agent: echo, secretEnv: S, reply: {tokenEnv: S, url: \"e.com/api/\"}}}", "must be an http or https URL"},
		"reply to a signal":        {"channels: {b: {kind: slack, agent: echo, secretEnv: S, signal: x, reply: {tokenEnv: S}}}", "remove one of them"},
		"reply with a token unset": {"channels: {b: {kind: slack, agent: echo, secretEnv: S, reply: {tokenEnv: NOT_SET}}}", "NOT_SET"},
		"unknown kind":             {"channels: {bot: {kind: slak, agent: echo, secretEnv: S}}", "did you mean slack?"},
		"no kind":                  {"channels: {bot: {agent: echo, secretEnv: S}}", "channels.bot.kind: is missing"},
		"no agent":                 {"channels: {bot: {kind: slack, secretEnv: S}}", "channels.bot.agent: is missing"},
		"no secret":                {"channels: {bot: {kind: slack, agent: echo}}", "channels.bot.secretEnv: is missing"},
		"secret that is unset":     {"channels: {bot: {kind: slack, agent: echo, secretEnv: NOT_SET}}", "NOT_SET"},
		"another agent":            {"channels: {bot: {kind: slack, agent: ecko, secretEnv: S}}", `names the unknown agent "ecko"`},
		"name of two segments":     {"channels: {a/b: {kind: slack, agent: echo, secretEnv: S}}", "not a valid channel name"},
		"no instance":              {"channels: {n: {kind: notes, agent: echo, secretEnv: S, message: x}}", "channels.n.instance: is missing"},
		"no message":               {"channels: {n: {kind: notes, agent: echo, secretEnv: S, instance: x}}", "channels.n.message: is missing"},
		"no message of GitHub":     {"channels: {g: {kind: github, agent: echo, secretEnv: S}}", "channels.g.message: is missing"},
		"no verify token":          {"channels: {w: {kind: whatsapp, agent: echo, secretEnv: S}}", "channels.w.verifyTokenEnv: is missing"},
		"no account":               {"channels: {t: {kind: twilio, agent: echo, secretEnv: S, publicUrl: \"https://e.com\"}}", "channels.t.account: is missing"},
		"no public URL":            {"channels: {t: {kind: twilio, agent: echo, secretEnv: S, account: AC}}", "channels.t.publicUrl: is missing"},
		"rotation of slack":        {"channels: {bot: {kind: slack, agent: echo, secretEnv: S, previousSecretEnv: S}}", "rotate secrets"},
		"headers of slack":         {"channels: {bot: {kind: slack, agent: echo, secretEnv: S, headerPrefix: X-Other}}", "have a header prefix"},
		"headers of no name":       {"channels: {bot: {kind: messenger, agent: echo, secretEnv: S, headerPrefix: \"X Other\"}}", "is not the name of a header"},
		"capability":               {"channels: {bot: {kind: slack, agent: echo, secretEnv: S, message: \"{response_url}\"}}", "response_url is a capability"},
		"capability, attribute":    {"channels: {bot: {kind: slack, agent: echo, secretEnv: S, signal: s, attributes: {t: \"{trigger_id}\"}}}", "trigger_id is a capability"},
		"attributes of nothing":    {"channels: {bot: {kind: slack, agent: echo, secretEnv: S, attributes: {t: x}}}", "channels.bot.signal: is missing"},
		"template":                 {"channels: {bot: {kind: slack, agent: echo, secretEnv: S, instance: \"{a\"}}", "unclosed {"},
		"unknown key":              {"channels: {bot: {kind: slack, agent: echo, secret: S}}", "channels.bot.secret: the key is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseChannels(t, tt.yaml+"\n", map[string]string{"S": "a-secret"})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "a-secret") {
				t.Errorf("error %v\nwant one with %q", err, tt.want)
			}
		})
	}
	t.Run("mount", func(t *testing.T) {
		o := options()
		o.Env = func(string) (string, bool) { return "x", true }
		_, err := config.Parse("parley.yaml", []byte("agents: {echo: {mounts: [/channels/echo], model: demo/parrot}}\nchannels: {bot: {kind: slack, agent: echo, secretEnv: S}}\n"), o)
		if err == nil || !strings.Contains(err.Error(), "is the path of channels") {
			t.Errorf("error %v", err)
		}
	})
}
