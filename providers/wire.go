package providers

import (
	"net/http"
	"net/url"
	"slices"
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

// LongCache reports whether the vendor is asked to keep a prompt in its cache for longer
// than by default.
func LongCache(m Model) bool {
	return m.LongCacheRetention && m.Compat.SupportsLongCacheRetention.Or(true)
}

// Copilot is the id of GitHub Copilot, which speaks three formats, each in a way of its
// own.
const Copilot = "github-copilot"

// SetCopilot tells Copilot what it asks of a request: whether a person began it or it goes
// on with what one began, which is counted apart, and whether there are images in it.
// Nothing of it says who asks. Requests of other providers stay as they are.
func SetCopilot(h http.Header, m Model, req Request) {
	if m.Provider != Copilot {
		return
	}
	initiator, images := "user", hasImages(req.Messages)
	last := req.Messages
	for _, b := range req.History {
		shown := TransformBlock(m, b)
		images = images || hasImages(shown)
		if len(req.Messages) == 0 {
			last = shown
		}
	}
	if n := len(last); n > 0 && last[n-1].Role != RoleUser {
		initiator = "agent"
	}
	h.Set("X-Initiator", initiator)
	h.Set("Openai-Intent", "conversation-edits")
	if images {
		h.Set("Copilot-Vision-Request", "true")
	}
}

// hasImages reports whether a model is shown an image, by a person or a tool.
func hasImages(messages []Message) bool {
	return slices.ContainsFunc(messages, func(m Message) bool { return holdsImage(m.Parts) })
}

func holdsImage(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool {
		switch p := p.(type) {
		case Image:
			return true
		case ToolResult:
			return holdsImage(p.Content)
		}
		return false
	})
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

// splitQuery returns a base URL and what stands behind "?" in it.
func splitQuery(baseURL string) (base, query string) {
	base, query, _ = strings.Cut(baseURL, "?")
	return base, query
}

// addressOf is where a call is sent: the base URL and its path, with the queries of both.
func addressOf(m Model, path string) string {
	base, own := splitQuery(m.BaseURL) // of a model that no Registry has resolved
	own = strings.Trim(m.Query+"&"+own, "&")
	path, query := splitQuery(path)
	has := func(name string) bool {
		return slices.ContainsFunc(strings.Split(own, "&"), func(pair string) bool { return pair == name || strings.HasPrefix(pair, name+"=") })
	}
	var all []string
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); name != "" && !has(name) {
			all = append(all, pair)
		}
	}
	if own != "" {
		all = append(all, own)
	}
	address := strings.TrimRight(base, "/") + path
	if len(all) == 0 {
		return address
	}
	return address + "?" + strings.Join(all, "&")
}
