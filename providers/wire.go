package providers

import (
	"net/http"
	"net/url"
	"strings"
)

// What several wire formats have in common beside their bodies.

// PlainName replaces what vendors do not take in names of tools and ids of calls, all but
// letters, digits, "_" and "-" of ASCII, and cuts it to limit bytes. It is never empty.
func PlainName(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "_"
	}
	return s[:min(len(s), limit)]
}

// Formats of session headers, Compat.SessionAffinityFormat.
const (
	AffinityOpenAI          = "openai"
	AffinityOpenAINoSession = "openai-nosession"
	AffinityOpenRouter      = "openrouter"
)

// maxSessionKey is the longest name of a session that vendors take, in bytes.
const maxSessionKey = 64

// SessionKey is the name of the session as vendors take it, in keys of a prompt cache and
// in headers.
func SessionKey(o Options) string { return o.SessionID[:min(len(o.SessionID), maxSessionKey)] }

// SetBearer sends the key as a bearer token, where the model's server looks for it. A
// blank key sets nothing.
func SetBearer(h http.Header, m Model, key string) {
	switch {
	case key == "":
	case OwnBearer(m):
		h.Set("Cf-Aig-Authorization", "Bearer "+key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

// OwnBearer reports whether the model's server wants its key as a bearer token in a header
// of its own, whatever the format has for keys.
func OwnBearer(m Model) bool {
	return m.Provider == "cloudflare-ai-gateway" || OnHost(m, "gateway.ai.cloudflare.com")
}

// TierFactor is what a service tier of OpenAI multiplies the prices of a model by.
func TierFactor(m Model, tier string) float64 {
	switch tier {
	case "flex":
		return 0.5
	case "priority", "fast":
		if m.ID == "gpt-5.5" {
			return 2.5
		}
		return 2
	}
	return 1
}

// OnHost reports whether the model is reached at a domain or a host under it.
func OnHost(m Model, domain string) bool { return Under(Host(m), domain) }

// Host is the host that the model is reached at, in lower case; empty if there is none.
func Host(m Model) string {
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// Under reports whether a host is a domain or stands under it.
func Under(host, domain string) bool {
	return strings.HasSuffix(host, domain) && (len(host) == len(domain) || host[len(host)-len(domain)-1] == '.')
}
