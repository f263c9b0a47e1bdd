package channels_test

import (
	"strings"
	"testing"

	"github.com/parleyrun/parley/channels"
)

// covers: channels/151
func TestTemplate(t *testing.T) {
	payload, err := channels.ParseLossless([]byte(`{"a":"x","n":115310627314723954,"f":1.50,"t":true,"o":{"b":{"c":"deep"}},"l":["0",{"d":"in a list"}],"null":null,"":"blank"}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		text  string
		whole bool
	}{
		"":                       {"", true},
		"plain":                  {"plain", true},
		"{a}":                    {"x", true},
		"<{a}|{n}|{f}|{t}>":      {"<x|115310627314723954|1.50|true>", true},
		"{o.b.c}, {l.1.d} {l.0}": {"deep, in a list 0", true},
		"{{a}} {{{a}}}":          {"{a} {x}", true},
		"{missing}!":             {"!", false},
		"{o}{o.b}{l}{null}{a.b}": {"", false},
		"{l.7}{l.x}{l.-1}":       {"", false},
	} {
		tmpl, err := channels.ParseTemplate(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, whole := tmpl.Render(payload); got != want.text || whole != want.whole {
			t.Errorf("%q: got %q, whole %v, want %+v", text, got, whole, want)
		}
	}
	for text, want := range map[string]string{
		"{": "unclosed", "a {b": "unclosed", "{a{b}": "unclosed", "}": "unmatched", "a}b": "unmatched", "{}": "empty name", "{a..b}": "empty name", "{a. }": "empty name",
	} {
		if _, err := channels.ParseTemplate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", text, err, want)
		}
	}
}

// covers: channels/152
func TestCapabilitiesAreRejected(t *testing.T) {
	for _, path := range []string{
		"response_url", "payload.response_urls.0.response_url", "trigger_id", "token", "interaction.token", "guest_message.guest_query_id", "guest_query_id",
		"callback_query.id", "inline_query.id", "verification_token", "accessToken", "access_token", "ResponseUrl", "SECRET", "client_secret", "signature",
	} {
		if _, err := channels.ParseTemplate("see {" + path + "}"); err == nil || !strings.Contains(err.Error(), "capability") {
			t.Errorf("%s: got error %v, want one with capability", path, err)
		}
	}
	for _, path := range []string{"tokens", "event.text", "response", "secretary", "from.id"} {
		if _, err := channels.ParseTemplate("{" + path + "}"); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// FuzzTemplate verifies that Render inserts the values of the payload and no more.
// covers: channels/151
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{a}", "{{a}}", "{a.b}", "}{", "{token}", "a{b}c{{d}}"} {
		f.Add(s)
	}
	payload := map[string]any{"a": "hidden in token", "b": map[string]any{"token": "confidential"}, "token": "confidential"}
	f.Fuzz(func(t *testing.T, text string) {
		tmpl, err := channels.ParseTemplate(text)
		if err != nil {
			return
		}
		if got, _ := tmpl.Render(payload); strings.Contains(got, "confidential") && !strings.Contains(text, "confidential") {
			t.Errorf("%q: got %q", text, got)
		}
	})
}
