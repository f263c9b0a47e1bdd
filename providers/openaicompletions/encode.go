package openaicompletions

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers"
)

type body struct {
	Model               *string         `json:"model,omitempty"`
	Messages            json.RawMessage `json:"messages"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
	Store               *bool           `json:"store,omitempty"`
	Tools               *[]tool         `json:"tools,omitempty"`
	ToolStream          bool            `json:"tool_stream,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
	PromptCacheKept     string          `json:"prompt_cache_retention,omitempty"`

	// Reasoning options, in the server's format.
	ReasoningEffort      string         `json:"reasoning_effort,omitempty"`
	Reasoning            map[string]any `json:"reasoning,omitempty"`
	Thinking             any            `json:"thinking,omitempty"`
	EnableThinking       *bool          `json:"enable_thinking,omitempty"`
	ChatTemplateKwargs   map[string]any `json:"chat_template_kwargs,omitempty"`
	ChatTemplateArgs     map[string]any `json:"chat_template_args,omitempty"`
	ThinkingBudget       int            `json:"thinking_budget,omitempty"`
	ThinkingBudgetTokens int            `json:"thinking_budget_tokens,omitempty"`
	ThinkingTokenBudget  int            `json:"thinking_token_budget,omitempty"`

	Provider        providers.Object `json:"provider,omitzero"`
	ProviderOptions *gatewayOptions  `json:"providerOptions,omitempty"`
}

type gatewayOptions struct {
	Gateway providers.Object `json:"gateway"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type tool struct {
	Type         string        `json:"type"`
	Function     function      `json:"function"`
	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

type message struct {
	Role string `json:"role"`
	// Content is a string, a []contentPart, or nil. Nil is sent as null, because an assistant message
	// with only calls needs the field.
	Content          any        `json:"content"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
	Name             string     `json:"name,omitempty"`
	ReasoningContent *string    `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ReasoningText    string     `json:"reasoning_text,omitempty"`
	ReasoningDetails details    `json:"reasoning_details,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function calledByName `json:"function"`
	attached
}

type calledByName struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type contentPart struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`

	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	d := c.dialectOf(m)
	messages, called, err := encodeMessages(m, req, d)
	if err != nil {
		return nil, err
	}
	sent, err := providers.SentTools(API, m, req.Tools)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b := body{Messages: e.Place(messages...), Stream: true, Temperature: o.Temperature, Stop: o.Stop}
	if c.binding {
		m = providers.Model{} // encode the messages only
	} else {
		b.Model = &m.ID
	}
	b.Provider = m.Compat.OpenRouterRouting
	if m.Compat.VercelGatewayRouting != "" {
		b.ProviderOptions = &gatewayOptions{m.Compat.VercelGatewayRouting}
	}
	if d.usage {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if d.store {
		b.Store = new(false)
	}
	if tools := encodeTools(sent, d); len(tools) > 0 || d.toolsWithHistory && called {
		b.Tools, b.ToolStream = &tools, d.zaiToolStream && len(tools) > 0
		b.ToolChoice = toolChoice(o.ToolChoice, len(tools))
	}
	if d.maxTokens == FieldMaxTokens {
		b.MaxTokens = o.MaxTokens
	} else {
		b.MaxCompletionTokens = o.MaxTokens
	}
	if d.cacheKey {
		b.PromptCacheKey = providers.SessionKey(o)
	}
	if d.longCache && d.mark == nil {
		b.PromptCacheKept = "24h"
	}
	if o.ThinkingLevel != "" {
		if err := (thinker{d, m, o.ThinkingLevel}).fill(&b); err != nil {
			return nil, err
		}
		b.limitThinking(m.Compat.ThinkingTokenBudgetField, o.ThinkingLevel)
	}
	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	return &providers.Call{Path: "/chat/completions", Header: d.header(m, req, o), Body: encoded}, nil
}

// toolChoice returns a mode, or an object that names a tool.
func toolChoice(c providers.ToolChoice, tools int) any {
	switch name := c.Tool(); {
	case c == providers.ToolAuto || tools == 0:
		return nil
	case name == "":
		return c
	default:
		return map[string]any{"type": "function", "function": map[string]string{"name": name}}
	}
}

// limitThinking sets the thinking budget in tokens in the server's field.
func (b *body) limitThinking(field string, level providers.ThinkingLevel) {
	if level == providers.ThinkingOff {
		return
	}
	switch field {
	case "thinking_budget":
		b.ThinkingBudget = level.Budget()
	case "thinking_budget_tokens":
		b.ThinkingBudgetTokens = level.Budget()
	case "thinking_token_budget":
		b.ThinkingTokenBudget = level.Budget()
	}
}

// header returns the headers with the key and the session affinity.
func (d dialect) header(m providers.Model, req providers.Request, o providers.Options) http.Header {
	h := http.Header{}
	providers.SetBearer(h, m, o.APIKey)
	providers.SetCopilot(h, m, req)
	key := providers.SessionKey(o)
	if key == "" {
		return h
	}
	if d.ownSession != "" {
		h.Set(d.ownSession, key)
	}
	switch d.affinity {
	case providers.AffinityOpenRouter:
		h.Set("X-Session-Id", key)
	case providers.AffinityOpenAINoSession:
		h.Set("X-Client-Request-Id", key)
	case providers.AffinityOpenAI:
		h["session_id"] = []string{key} // vendors require this spelling
		h.Set("X-Client-Request-Id", key)
		h.Set("X-Session-Affinity", key)
	}
	return h
}

func encodeTools(tools []providers.Tool, d dialect) []tool {
	out := make([]tool, 0, len(tools))
	for _, t := range tools {
		f := function{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}
		if d.strict {
			f.Strict = new(false)
		}
		out = append(out, tool{Type: "function", Function: f})
	}
	if n := len(out); n > 0 {
		out[n-1].CacheControl = d.mark
	}
	return out
}

// encodeContent returns plain text as a string, which every server accepts, and a list of parts only
// for images.
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
