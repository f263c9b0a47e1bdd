package observability

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
)

// RequestOf returns the request for a model, which is named "provider/model".
func RequestOf(spec string, f conversation.CallFacts) ModelRequest {
	provider, model, ok := strings.Cut(spec, "/")
	if !ok {
		provider, model = "", spec
	}
	return ModelRequest{
		Provider: provider, ProviderName: cmp.Or(f.Provider, provider), Model: model, API: f.API, Server: f.Server, Port: f.Port, Reasoning: f.Thinking,
	}
}

// usageOf returns nil for a call without counted tokens.
func usageOf(u conversation.Usage, price *conversation.Price) *Usage {
	if u == (conversation.Usage{}) && price == nil {
		return nil
	}
	out := &Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning, Total: u.Total,
	}
	if price != nil {
		out.Cost = Cost(*price)
	}
	return out
}

// text returns a piece of content, up to the limit, as in the log.
func (p *projection) text(s string) *Content {
	return p.opts.content(stored(s))
}

// stored returns a string as in the log, where invalid text is replaced.
func stored(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// json returns the text of a JSON value. The log removes blanks.
func (p *projection) json(b []byte) *Content {
	if blanks(b) {
		var out bytes.Buffer
		if json.Compact(&out, b) == nil {
			b = out.Bytes()
		}
	}
	return p.opts.content(string(b))
}

// blanks reports whether there are blanks between the tokens of a JSON value.
func blanks(b []byte) bool {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++
		case ' ', '\t', '\n', '\r':
			if !quoted {
				return true
			}
		}
	}
	return false
}

// content returns nil for an empty string, and only the length if content is disabled.
func (o ProjectOptions) content(s string) *Content {
	if s == "" {
		return nil
	}
	c := &Content{Bytes: len(s)}
	if o.Content {
		c.Text, c.Truncated = o.cut(s)
	}
	return c
}

// cut truncates content to the limit, at the end of a character.
func (o ProjectOptions) cut(s string) (string, bool) {
	limit := o.Limit()
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit], true
}

// Limit returns the limit of a piece of content, in bytes.
func (o ProjectOptions) Limit() int { return cmp.Or(o.MaxContentBytes, DefaultContentBytes) }

// Cut truncates content to the limit.
func (o ProjectOptions) Cut(s string) string {
	s, _ = o.cut(s)
	return s
}
