package bedrockconverse

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/internal/sides"
)

// block has one of its members.
type block struct {
	Text       string      `json:"text,omitempty"`
	Image      *image      `json:"image,omitempty"`
	Reasoning  *reasoning  `json:"reasoningContent,omitempty"`
	ToolUse    *toolUse    `json:"toolUse,omitempty"`
	ToolResult *toolResult `json:"toolResult,omitempty"`
	CachePoint *cachePoint `json:"cachePoint,omitempty"`
}

type image struct {
	Format string `json:"format"`
	Source struct {
		Bytes string `json:"bytes"`
	} `json:"source"`
}

// reasoning has one of its members.
type reasoning struct {
	Text     *reasoningText `json:"reasoningText,omitempty"`
	Redacted []byte         `json:"redactedContent,omitempty"`
}

type reasoningText struct {
	Text      string `json:"text"`
	Signature string `json:"signature"`
}

type toolUse struct {
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type toolResult struct {
	ID      string  `json:"toolUseId"`
	Content []block `json:"content"`
	Status  string  `json:"status"`
}

type cachePoint struct {
	Type string `json:"type"`
	// TTL is how long the cache keeps what is before the mark: five minutes if it is empty.
	TTL string `json:"ttl,omitempty"`
}

// cacheMark is a mark of the prompt cache.
func cacheMark(m providers.Model) block {
	c := &cachePoint{Type: "default"}
	if providers.LongCache(m) {
		c.TTL = "1h"
	}
	return block{CachePoint: c}
}

// emptyResult stands for a result without content, which the vendor refuses.
const emptyResult = "(The tool returned nothing.)"

// messages is what the format puts into messages to a model, with marks of the cache or
// without.
func messages(m providers.Model, mark bool) sides.Format[block] {
	_, isClaude := claudeOf(m)
	f := sides.Format[block]{
		Content: encodeContent, Results: encodeResults, ID: callID,
		Reply: func(parts []providers.Part, calls *sides.Calls) []block { return encodeReply(parts, calls, isClaude) },
	}
	if mark {
		f.Mark = func(content []block) []block { return append(content, cacheMark(m)) }
	}
	return f
}

// maxName is the longest name and id that the vendor takes, in bytes.
const maxName = 64

// callID returns the id of the n-th call that has an id: itself if the vendor takes it, else
// its beginning and a hash.
func callID(id string, n int) string {
	if n == 1 && id != "" && plain(id) == id {
		return id
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", n, id))
	suffix := "_" + hex.EncodeToString(sum[:8])
	begin := plain(id)
	return begin[:min(len(begin), maxName-len(suffix))] + suffix
}

// plain is a name or an id as the vendor takes it.
func plain(s string) string { return providers.PlainName(s, maxName) }

// encodeReply returns the blocks of a reply. Reasoning that nothing follows, of a reply that
// was cut off there, stays away: Claude refuses it.
func encodeReply(parts []providers.Part, calls *sides.Calls, isClaude bool) []block {
	var out []block
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			if !blank(p.Text) {
				out = append(out, block{Text: p.Text})
			}
		case providers.Reasoning:
			if r := encodeReasoning(p); r != nil && isClaude {
				out = append(out, block{Reasoning: r})
			}
		case providers.ToolCall:
			name := plain(p.Name)
			calls.Use(name)
			out = append(out, block{ToolUse: &toolUse{ID: calls.Send(p.ID), Name: name, Input: withoutEmptyKeys(p.Arguments)}})
		}
	}
	for n := len(out); n > 0 && out[n-1].Reasoning != nil; n-- {
		out = out[:n-1]
	}
	return out
}

// redacted is the signature of reasoning that is not shown. The vendor's own signatures are
// base64, so an object is never taken for one.
func redacted(content []byte) string {
	signature, err := json.Marshal(reasoning{Redacted: content})
	if err != nil {
		panic("bedrockconverse: a block has no JSON form: " + err.Error())
	}
	return string(signature)
}

// encodeReasoning returns what the vendor takes back of a part, nil if that is nothing: it
// takes what it has signed.
func encodeReasoning(r providers.Reasoning) *reasoning {
	if !strings.HasPrefix(r.Signature, "{") {
		if r.Signature == "" {
			return nil
		}
		return &reasoning{Text: &reasoningText{Text: r.Text, Signature: r.Signature}}
	}
	var stored reasoning
	if json.Unmarshal([]byte(r.Signature), &stored) != nil || len(stored.Redacted) == 0 {
		return nil
	}
	return &reasoning{Redacted: stored.Redacted}
}

// encodeResults returns results, and behind them the images of those that are errors.
func encodeResults(parts []providers.Part, calls *sides.Calls, e *providers.BodyEncoder) []block {
	var out, images []block
	for _, p := range parts {
		r, ok := p.(providers.ToolResult)
		if !ok {
			continue
		}
		result := &toolResult{ID: calls.Sent(r.CallID), Status: "success"}
		if r.IsError {
			result.Status = "error"
		}
		for _, b := range encodeContent(r.Content, e) {
			if b.Image != nil && r.IsError {
				images = append(images, b)
				continue
			}
			result.Content = append(result.Content, b)
		}
		if len(result.Content) == 0 {
			result.Content = []block{{Text: emptyResult}}
		}
		out = append(out, block{ToolResult: result})
	}
	return append(out, images...)
}

func encodeContent(parts []providers.Part, e *providers.BodyEncoder) []block {
	var out []block
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			if !blank(p.Text) {
				out = append(out, block{Text: p.Text})
			}
		case providers.Image:
			i := &image{Format: imageFormat(p.MimeType)}
			i.Source.Bytes = e.Base64(p)
			out = append(out, block{Image: i})
		}
	}
	return out
}

func imageFormat(mimeType string) string {
	format := strings.TrimPrefix(mimeType, "image/")
	if format == "jpg" {
		return "jpeg"
	}
	return format
}

// emptyKey finds what may be an empty key of an object.
var emptyKey = regexp.MustCompile(`""\s*:`)

// withoutEmptyKeys leaves out members whose key is empty: models write such, and the vendor
// refuses them.
func withoutEmptyKeys(arguments json.RawMessage) json.RawMessage {
	if !emptyKey.Match(arguments) {
		return arguments
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return arguments // it is an object by now
	}
	dropEmptyKeys(v)
	out, err := json.Marshal(v)
	if err != nil {
		panic("bedrockconverse: what was JSON has no JSON form: " + err.Error())
	}
	return out
}

func dropEmptyKeys(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "")
		for _, inner := range v {
			dropEmptyKeys(inner)
		}
	case []any:
		for _, inner := range v {
			dropEmptyKeys(inner)
		}
	}
}
