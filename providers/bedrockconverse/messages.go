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

// block has exactly one member.
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

// reasoning has exactly one member.
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
	// TTL is the retention of the prefix; empty means five minutes.
	TTL string `json:"ttl,omitempty"`
}

// cacheMark returns a marker of the prompt cache.
func cacheMark(m providers.Model) block {
	c := &cachePoint{Type: "default"}
	if providers.LongCache(m) {
		c.TTL = "1h"
	}
	return block{CachePoint: c}
}

// emptyResult replaces empty content, which the vendor rejects.
const emptyResult = "(The tool returned nothing.)"

// messages returns the message format of a model, with or without cache markers.
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

// maxName is the maximum length in bytes of a name or id that the vendor accepts.
const maxName = 64

// callID returns the id in the request of the n-th call with an id: the id itself if it is valid, else
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

// plain returns a valid name or id.
func plain(s string) string { return providers.PlainName(s, maxName) }

// encodeReply returns the blocks of a reply. Trailing reasoning of a truncated reply is omitted,
// because Claude rejects it.
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

// redacted returns the signature of redacted reasoning: a JSON object. The vendor's own signatures are
// base64, so they never look like an object.
func redacted(content []byte) string {
	signature, err := json.Marshal(reasoning{Redacted: content})
	if err != nil {
		panic("bedrockconverse: encode block: " + err.Error())
	}
	return string(signature)
}

// encodeReasoning returns reasoning that the vendor accepts back, which must be signed, or nil.
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

// encodeResults returns results, followed by the images of error results.
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

// emptyKey matches a possible empty key of an object.
var emptyKey = regexp.MustCompile(`""\s*:`)

// withoutEmptyKeys removes members with an empty key. Models write such members, and the vendor
// rejects them.
func withoutEmptyKeys(arguments json.RawMessage) json.RawMessage {
	if !emptyKey.Match(arguments) {
		return arguments
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return arguments // cannot happen: arguments is an object
	}
	dropEmptyKeys(v)
	out, err := json.Marshal(v)
	if err != nil {
		panic("bedrockconverse: encode JSON: " + err.Error())
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
