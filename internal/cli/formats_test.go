package cli

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/openairesponses"
)

// formats lists the wire formats that are called over HTTP.
func formats() (out []string) {
	for _, api := range protocols() {
		if api != providers.APIEdgeAIBinding {
			out = append(out, api)
		}
	}
	return out
}

// The query of baseUrl is sent in addition to the parameters that a format adds itself.
func TestQueryOfBaseURL(t *testing.T) {
	p := newProber(t)
	for _, api := range formats() {
		plain := p.send(api, providers.Options{}, asItIs)
		got := p.send(api, providers.Options{}, func(r *providers.Registration) { r.BaseURL += "/?api-version=1&route=a%2Fb" })
		want, err := url.ParseQuery(plain.query)
		if err != nil {
			t.Fatal(err)
		}
		want["api-version"], want["route"] = []string{"1"}, []string{"a/b"}
		if query, err := url.ParseQuery(got.query); err != nil || query.Encode() != want.Encode() || got.path != plain.path {
			t.Errorf("%s: got %s?%s, %v, want %s?%s", api, got.path, got.query, err, plain.path, want.Encode())
		}
	}
}

// outputLimit matches the output limit in a request body.
var outputLimit = regexp.MustCompile(`"(?:max_tokens|max_completion_tokens|max_output_tokens|maxTokens|maxOutputTokens)":([0-9]+)`)

// No format requests more output than the prompt leaves of the window, at any thinking level.
func TestOutputFitsIntoWindow(t *testing.T) {
	const window = 32768
	p := newProber(t)
	for _, api := range formats() {
		for _, level := range []providers.ThinkingLevel{"", providers.ThinkingOff, providers.ThinkingLow, providers.ThinkingMax} {
			got := p.send(api, providers.Options{ThinkingLevel: level, MaxTokens: 32_000}, func(r *providers.Registration) {
				r.ContextWindow, r.MaxTokens = new(window), new(window)
			})
			found := outputLimit.FindStringSubmatch(got.body)
			if api == openairesponses.APICodex { // has no output limit
				if found != nil {
					t.Errorf("%s: got %s, want no limit", api, found[0])
				}
				continue
			}
			if found == nil {
				t.Errorf("%s, level %q: got no limit in %s", api, level, got.body)
				continue
			}
			limit, err := strconv.Atoi(found[1])
			prompt := len(strings.ReplaceAll(got.body, probeKey, "")) / 3
			if err != nil || limit < 20_000 || limit+prompt > window {
				t.Errorf("%s, level %q: got a limit of %s with a prompt of %d, %v, want both within %d", api, level, found[1], prompt, err, window)
			}
		}
	}
}
