package openaicompletions

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/parleyrun/parley/providers"
)

// maxCacheKey is the longest prompt_cache_key the vendor takes, in bytes.
const maxCacheKey = 64

type body struct {
	Model               string          `json:"model"`
	Messages            json.RawMessage `json:"messages"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	Tools               []tool          `json:"tools,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type message struct {
	Role string `json:"role"`
	// Content is a string, a []contentPart, or nil, which is sent as null: an
	// assistant message with nothing but calls needs the field.
	Content          any        `json:"content"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ReasoningText    string     `json:"reasoning_text,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function calledByName `json:"function"`
}

type calledByName struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	messages, err := encodeMessages(m, req)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b := body{
		Model:         m.ID,
		Messages:      e.Place(messages...),
		Stream:        true,
		StreamOptions: streamOptions{IncludeUsage: true},
		Temperature:   o.Temperature,
	}
	for _, t := range req.Tools {
		parameters := t.InputSchema
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		b.Tools = append(b.Tools, tool{Type: "function", Function: function{t.Name, t.Description, parameters}})
	}
	ownHost := isOpenAI(m.BaseURL)
	if c.maxTokensField == FieldMaxCompletionTokens || c.maxTokensField == "" && ownHost {
		b.MaxCompletionTokens = o.MaxTokens
	} else {
		b.MaxTokens = o.MaxTokens
	}
	if ownHost {
		b.PromptCacheKey = o.SessionID[:min(len(o.SessionID), maxCacheKey)]
	}
	switch o.ThinkingLevel {
	case providers.ThinkingMinimal, providers.ThinkingLow:
		b.ReasoningEffort = "low"
	case providers.ThinkingMedium:
		b.ReasoningEffort = "medium"
	case providers.ThinkingHigh, providers.ThinkingXHigh, providers.ThinkingMax:
		b.ReasoningEffort = "high"
	}

	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if o.APIKey != "" {
		header.Set("Authorization", "Bearer "+o.APIKey)
	}
	return &providers.Call{Path: "/chat/completions", Header: header, Body: encoded}, nil
}

func isOpenAI(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	host := "." + strings.ToLower(u.Hostname())
	return strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".openai.azure.com")
}

// fragment is a run of encoded messages without the brackets of an array, nil if
// there are none.
type fragment struct{ text *providers.Body }

// encodeMessages returns the pieces of the messages' array.
func encodeMessages(m providers.Model, req providers.Request) ([]*providers.Body, error) {
	fragments := make([]fragment, 0, len(req.History)+2)
	if req.System != "" {
		f, err := newFragment([]message{{Role: "system", Content: req.System}}, nil)
		if err != nil {
			return nil, err
		}
		fragments = append(fragments, f)
	}
	for _, b := range req.History {
		f, err := providers.EncodeBlock(b, m, func(fragment) bool { return true }, encodeBlock)
		if err != nil {
			return nil, err
		}
		fragments = append(fragments, f)
	}
	f, err := newFragment(nil, req.Messages)
	if err != nil {
		return nil, err
	}
	return join(append(fragments, f)), nil
}

func encodeBlock(messages []providers.Message) (fragment, int64, error) {
	f, err := newFragment(nil, messages)
	if err != nil || f.text == nil {
		return f, 0, err
	}
	return f, f.text.TextBytes(), nil
}

// newFragment encodes messages after those that are in the format already.
func newFragment(out []message, in []providers.Message) (fragment, error) {
	var e providers.BodyEncoder
	for _, msg := range in {
		switch msg.Role {
		case providers.RoleUser:
			out = append(out, message{Role: "user", Content: encodeContent(msg.Parts, &e)})
		case providers.RoleAssistant:
			out = append(out, encodeAssistant(msg))
		case providers.RoleTool:
			out = append(out, encodeResults(msg.Parts, &e)...)
		}
	}
	if len(out) == 0 {
		return fragment{}, nil
	}
	text, err := e.Encode(out)
	if err != nil {
		return fragment{}, err
	}
	return fragment{text.Inner(len("["), len("]\n"))}, nil
}

// join makes one array of fragments.
func join(fragments []fragment) []*providers.Body {
	out := make([]*providers.Body, 1, 2*len(fragments)+2)
	out[0] = providers.NewBody("[")
	comma := providers.NewBody(",")
	for _, f := range fragments {
		if f.text == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, comma)
		}
		out = append(out, f.text)
	}
	return append(out, providers.NewBody("]"))
}

func encodeAssistant(msg providers.Message) message {
	out := message{Role: "assistant"}
	var text strings.Builder
	for _, p := range msg.Parts {
		switch p := p.(type) {
		case providers.Text:
			text.WriteString(p.Text)
		case providers.Reasoning:
			switch p.Signature {
			case fieldReasoningContent:
				out.ReasoningContent += p.Text
			case fieldReasoning:
				out.Reasoning += p.Text
			case fieldReasoningText:
				out.ReasoningText += p.Text
			}
		case providers.ToolCall:
			out.ToolCalls = append(out.ToolCalls, toolCall{
				ID: p.ID, Type: "function", Function: calledByName{Name: p.Name, Arguments: string(p.Arguments)},
			})
		}
	}
	if text.Len() > 0 || len(out.ToolCalls) == 0 {
		out.Content = text.String()
	}
	return out
}

// encodeResults puts images of results into a user message after them, since a
// tool message takes text alone. It must not come between the results.
func encodeResults(parts []providers.Part, e *providers.BodyEncoder) []message {
	var out []message
	var images []contentPart
	for _, p := range parts {
		r, ok := p.(providers.ToolResult)
		if !ok {
			continue
		}
		var text strings.Builder
		if r.IsError {
			text.WriteString("Error: ")
		}
		for _, c := range r.Content {
			switch c := c.(type) {
			case providers.Text:
				text.WriteString(c.Text)
			case providers.Image:
				images = append(images, encodeImage(c, e))
				fmt.Fprintf(&text, "(Image %d below.)", len(images))
			}
		}
		out = append(out, message{Role: "tool", ToolCallID: r.CallID, Content: text.String()})
	}
	if len(images) > 0 {
		intro := contentPart{Type: "text", Text: "Images the tools returned:"}
		out = append(out, message{Role: "user", Content: append([]contentPart{intro}, images...)})
	}
	return out
}

// encodeContent sends plain text as a string, which every server takes; a list
// of parts is for images.
func encodeContent(parts []providers.Part, e *providers.BodyEncoder) any {
	var texts []string
	var list []contentPart
	for _, p := range parts {
		switch p := p.(type) {
		case providers.Text:
			texts = append(texts, p.Text)
			list = append(list, contentPart{Type: "text", Text: p.Text})
		case providers.Image:
			list = append(list, encodeImage(p, e))
		}
	}
	if len(texts) == len(list) {
		return strings.Join(texts, "\n")
	}
	return list
}

func encodeImage(i providers.Image, e *providers.BodyEncoder) contentPart {
	url := "data:" + i.MimeType + ";base64," + e.Base64(i)
	return contentPart{Type: "image_url", ImageURL: &imageURL{URL: url}}
}
