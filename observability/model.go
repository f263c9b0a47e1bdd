package observability

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/parleyrun/parley/conversation"
)

// RequestOf says which model was asked. A model is named "provider/model".
func RequestOf(spec string, f conversation.CallFacts) ModelRequest {
	provider, model, ok := strings.Cut(spec, "/")
	if !ok {
		provider, model = "", spec
	}
	return ModelRequest{
		Provider: provider, ProviderName: cmp.Or(f.Provider, provider), Model: model, API: f.API, Server: f.Server, Port: f.Port, Reasoning: f.Thinking,
	}
}

// usageOf returns nil for a call of which nothing was counted.
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

// text shows a piece of content, up to the bound.
func (p *projection) text(s string) *Content { return p.opts.content(s) }

// json is text of a JSON value.
func (p *projection) json(b []byte) *Content { return p.opts.content(string(b)) }

// content returns nil for nothing, and the length alone where content is switched off.
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

// cut shortens content to the bound, at the end of a character.
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

// Limit is the bound of a piece of content, in bytes.
func (o ProjectOptions) Limit() int { return cmp.Or(o.MaxContentBytes, DefaultContentBytes) }

// Cut shortens content to the bound.
func (o ProjectOptions) Cut(s string) string {
	s, _ = o.cut(s)
	return s
}
