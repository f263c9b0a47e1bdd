package mistralconversations

import (
	"encoding/json"
	"net/http"

	"github.com/parleyrun/parley/providers"
)

// body has only members that the vendor accepts; it rejects all others.
type body struct {
	Model           string          `json:"model"`
	Messages        json.RawMessage `json:"messages"`
	Stream          bool            `json:"stream"`
	Tools           []tool          `json:"tools,omitempty"`
	MaxTokens       int             `json:"max_tokens,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	Stop            []string        `json:"stop,omitempty"`
	ToolChoice      any             `json:"tool_choice,omitempty"`
	PromptMode      string          `json:"prompt_mode,omitempty"`
	ReasoningEffort string          `json:"reasoning_effort,omitempty"`
	PromptCacheKey  string          `json:"prompt_cache_key,omitempty"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	messages, err := encodeMessages(m, req)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b := body{Model: m.ID, Messages: e.Place(messages...), Stream: true, MaxTokens: o.MaxTokens, Temperature: o.Temperature, Stop: o.Stop}
	tools, err := providers.SentTools(API, m, req.Tools)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		b.Tools = append(b.Tools, tool{"function", function{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}})
	}
	if len(b.Tools) > 0 {
		b.ToolChoice = choose(o.ToolChoice)
	}
	b.think(m.Thinking, o.ThinkingLevel)
	h, key := http.Header{}, providers.SessionKey(o)
	providers.SetBearer(h, m, o.APIKey)
	if key != "" {
		h.Set("X-Affinity", key)
	}
	if m.Compat.PromptCacheKeyMode != "disabled" {
		b.PromptCacheKey = key
	}
	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	return &providers.Call{Path: "/v1/chat/completions", Header: h, Body: encoded}, nil
}

// choose returns a mode, an object that names a tool, or nil for the vendor's default.
func choose(c providers.ToolChoice) any {
	switch c {
	case providers.ToolAuto:
		return nil
	case providers.ToolNone, providers.ToolRequired:
		return c
	default:
		return map[string]any{"type": "function", "function": map[string]string{"name": c.Tool()}}
	}
}

// Values for models without a thinking map.
const (
	promptReasoning = "reasoning"
	effortHigh      = "high"
	effortNone      = "none"
)

// think sets the thinking options. An empty level means the vendor's default.
func (b *body) think(levels providers.ThinkingMap, level providers.ThinkingLevel) {
	word, ok := levels.Word(level)
	_, listed := levels[level]
	switch {
	case level == "":
	case level == providers.ThinkingOff && !listed:
		if len(levels) > 0 {
			b.ReasoningEffort = effortNone
		}
	case len(levels) == 0:
		b.PromptMode = promptReasoning
	case ok:
		b.ReasoningEffort = word
	case level != providers.ThinkingOff:
		b.ReasoningEffort = effortHigh
	}
}
