package anthropicmessages

import (
	"encoding/json"
	"fmt"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/internal/sides"
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

// Maximum lengths of names that the vendor accepts, in bytes.
const (
	maxCallID   = 64
	maxCallName = 128
)

type block struct {
	Type string `json:"type"`

	Text   string  `json:"text,omitempty"`
	Source *source `json:"source,omitempty"`

	// Thinking and Signature are pointers, since the fields are required even if they are empty.
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

// messages returns the message format, with cache markers if mark is not nil. unsigned is set for
// servers that accept unsigned thinking.
func messages(mark *cacheControl, unsigned bool) sides.Format[block] {
	f := sides.Format[block]{
		Content: encodeContent, Results: encodeResults, ID: callID, Variant: unsigned,
		Reply: func(parts []providers.Part, calls *sides.Calls) []block { return encodeReply(parts, calls, unsigned) },
	}
	if mark != nil {
		f.Mark = func(content []block) []block {
			content[len(content)-1].CacheControl = mark
			return content
		}
	}
	return f
}

// callID returns the id in the request of the n-th call with an id.
func callID(id string, n int) string {
	if n == 1 {
		return providers.PlainName(id, maxCallID)
	}
	suffix := fmt.Sprintf("_%d", n)
	return providers.PlainName(id, maxCallID-len(suffix)) + suffix
}

// encodeReply returns the blocks of a reply. Trailing thinking of a truncated reply is omitted,
// because the vendor rejects it.
func encodeReply(parts []providers.Part, calls *sides.Calls, unsigned bool) []block {
	var out []block
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
				Type: blockToolUse, ID: calls.Send(p.ID), Name: providers.PlainName(p.Name, maxCallName), Input: p.Arguments,
			})
		}
	}
	for n := len(out); n > 0 && (out[n-1].Type == blockThinking || out[n-1].Type == blockRedacted); n-- {
		out = out[:n-1]
	}
	return out
}

func encodeResults(parts []providers.Part, calls *sides.Calls, e *providers.BodyEncoder) []block {
	var out []block
	for _, p := range parts {
		if r, ok := p.(providers.ToolResult); ok {
			out = append(out, block{
				Type: blockToolResult, ToolUseID: calls.Sent(r.CallID), Content: encodeContent(r.Content, e), IsError: r.IsError,
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
