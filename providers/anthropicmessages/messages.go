package anthropicmessages

import (
	"encoding/json"

	"github.com/parleyrun/parley/providers"
)

// Types of blocks.
const (
	blockText       = "text"
	blockImage      = "image"
	blockThinking   = "thinking"
	blockRedacted   = "redacted_thinking"
	blockToolUse    = "tool_use"
	blockToolResult = "tool_result"
)

// Longest names the vendor takes, in bytes.
const (
	maxCallID   = 64
	maxCallName = 128
)

const (
	sideUser      = "user"
	sideAssistant = "assistant"
)

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

type block struct {
	Type string `json:"type"`

	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`

	// Thinking and Signature are pointers since the fields are required even if they are
	// empty.
	Thinking  *string `json:"thinking,omitempty"`
	Signature *string `json:"signature,omitempty"`
	Data      string  `json:"data,omitempty"`

	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	ToolUseID string  `json:"tool_use_id,omitempty"`
	Content   []block `json:"content,omitempty"`
	IsError   bool    `json:"is_error,omitempty"`

	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func encodeAssistant(parts []providers.Part, ids *callIDs, unsigned bool) []block {
	var out []block
	ids.latest = nil
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			if !blank(p.Text) {
				out = append(out, block{Type: blockText, Text: p.Text})
			}
		case providers.Reasoning:
			out = append(out, encodeReasoning(p, unsigned)...)
		case providers.ToolCall:
			out = append(out, block{
				Type: blockToolUse, ID: ids.add(p.ID), Name: providers.PlainName(p.Name, maxCallName), Input: p.Arguments,
			})
		}
	}
	return out
}

func encodeResults(parts []providers.Part, ids *callIDs, e *providers.BodyEncoder) []block {
	var out []block
	for _, p := range parts {
		if r, ok := p.(providers.ToolResult); ok {
			out = append(out, block{
				Type: blockToolResult, ToolUseID: ids.latest[r.CallID], Content: encodeContent(r.Content, e), IsError: r.IsError,
			})
		}
	}
	return out
}

func encodeContent(parts []providers.Part, e *providers.BodyEncoder) []block {
	var out []block
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			if !blank(p.Text) {
				out = append(out, block{Type: blockText, Text: p.Text})
			}
		case providers.Image:
			out = append(out, block{Type: blockImage, Source: &source{
				Type: "base64", MediaType: p.MimeType, Data: e.Base64(p),
			}})
		}
	}
	return out
}
