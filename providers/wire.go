package providers

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Helpers shared by several wire formats, apart from their bodies.

// PlainName replaces characters that vendors reject in names of tools and ids of calls: all except
// ASCII letters, digits, "_" and "-". It truncates to limit bytes. The result is never empty.
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

// Values of Compat.SessionAffinityFormat.
const (
	AffinityOpenAI          = "openai"
	AffinityOpenAINoSession = "openai-nosession"
	AffinityOpenRouter      = "openrouter"
)

// maxSessionKey is the maximum length of a session name that vendors accept, in bytes.
const maxSessionKey = 64

// SessionKey returns the session name, truncated for prompt cache keys and headers.
func SessionKey(o Options) string { return o.SessionID[:min(len(o.SessionID), maxSessionKey)] }

// SetBearer sends the key as a bearer token in the header that the model's server expects. A blank key
// sets nothing.
func SetBearer(h http.Header, m Model, key string) {
	switch {
	case key == "":
	case OwnBearer(m):
		h.Set("Cf-Aig-Authorization", "Bearer "+key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

// OwnBearer reports whether the model's server expects its key as a bearer token in its own header,
// whatever the format.
func OwnBearer(m Model) bool {
	return m.Provider == "cloudflare-ai-gateway" || OnHost(m, "gateway.ai.cloudflare.com")
}

// LongCache reports whether a longer retention of cached prompts is requested.
func LongCache(m Model) bool {
	return m.LongCacheRetention && m.Compat.SupportsLongCacheRetention.Or(true)
}

// Copilot is the id of GitHub Copilot, which uses variants of three formats.
const Copilot = "github-copilot"

// SetCopilot sets the request headers of GitHub Copilot: whether a user or the agent initiated the
// request, which are billed separately, and whether it contains images. They contain no user identity.
// Requests of other providers are unchanged.
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

// hasImages reports whether the model receives an image from a user or a tool.
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

// TierFactor returns the price multiplier of an OpenAI service tier for a model.
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

// OnHost reports whether the model's host is the domain or a subdomain of it.
func OnHost(m Model, domain string) bool { return Under(Host(m), domain) }

// Host returns the host of the model in lower case, or "".
func Host(m Model) string {
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// Under reports whether a host is a domain or a subdomain of it.
func Under(host, domain string) bool {
	return strings.HasSuffix(host, domain) && (len(host) == len(domain) || host[len(host)-len(domain)-1] == '.')
}

// splitQuery splits a base URL at "?".
func splitQuery(baseURL string) (base, query string) {
	base, query, _ = strings.Cut(baseURL, "?")
	return base, query
}

// addressOf returns the URL of a call: the base URL and path, with the queries of both.
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
