package anthropicmessages

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers"
	"github.com/parleyrun/parley/providers/internal/claude"
)

const version = "2023-06-01"

// Subscription tokens begin with oauthPrefix and require the beta header.
const (
	oauthPrefix = "sk-ant-oat"
	oauthBeta   = "oauth-2025-04-20"
)

type body struct {
	Model     *string `json:"model,omitempty"`
	MaxTokens int     `json:"max_tokens"`
	Stream    bool    `json:"stream"`
	// System is a []block, a string, or nil for none.
	System      any              `json:"system,omitempty"`
	Tools       []tool           `json:"tools,omitempty"`
	Messages    json.RawMessage  `json:"messages"`
	Thinking    *claude.Thinking `json:"thinking,omitempty"`
	Output      *outputConfig    `json:"output_config,omitempty"`
	Temperature *float64         `json:"temperature,omitempty"`
	Stop        []string         `json:"stop_sequences,omitempty"`
	ToolChoice  *toolChoice      `json:"tool_choice,omitempty"`
}

type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

type outputConfig struct {
	Effort string `json:"effort"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Eager        bool            `json:"eager_input_streaming,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	var mark *cacheControl
	if !c.binding {
		mark = ephemeral(m)
	}
	assistant, _, err := messages(mark, m.Compat.AllowEmptySignature.Or(false)).Encode(m, req)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b := body{Stream: true, Messages: e.Place(assistant...), Stop: o.Stop}
	if !c.binding {
		b.Model = &m.ID
	}
	switch {
	case blank(req.System):
	case c.binding:
		b.System = req.System
	default:
		b.System = []block{{Type: blockText, Text: req.System, CacheControl: mark}}
	}
	eager := m.Compat.SupportsEagerToolInputStreaming.Or(providers.OnHost(m, "anthropic.com"))
	tools, err := providers.SentTools(API, m, req.Tools)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		b.Tools = append(b.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, Eager: eager})
	}
	if n := len(b.Tools); n > 0 && m.Compat.SupportsCacheControlOnTools.Or(true) {
		b.Tools[n-1].CacheControl = mark
	}
	if len(b.Tools) > 0 {
		b.ToolChoice = choose(o.ToolChoice)
	}
	if o.ToolChoice.Forces() && len(b.Tools) > 0 && o.ThinkingLevel != "" {
		o.ThinkingLevel = providers.ThinkingOff // the vendor rejects both together
	}
	b.think(m, req.Messages, o)
	if (b.Thinking == nil || b.Thinking.Type == claude.Off) && m.Compat.SupportsTemperature.Or(true) {
		b.Temperature = o.Temperature
	}

	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	return &providers.Call{Path: "/v1/messages", Header: header(m, req, o), Body: encoded}, nil
}

// choose returns nil for the vendor's default.
func choose(c providers.ToolChoice) *toolChoice {
	switch c {
	case providers.ToolAuto:
		return nil
	case providers.ToolNone:
		return &toolChoice{Type: "none"}
	case providers.ToolRequired:
		return &toolChoice{Type: "any"}
	default:
		return &toolChoice{Type: "tool", Name: c.Tool()}
	}
}

// header returns the headers with the key and the session affinity.
func header(m providers.Model, req providers.Request, o providers.Options) http.Header {
	header := http.Header{}
	header.Set("Anthropic-Version", version)
	subscribed := strings.HasPrefix(o.APIKey, oauthPrefix)
	switch {
	case o.Bearer || subscribed || providers.OwnBearer(m) || m.Provider == providers.Copilot:
		providers.SetBearer(header, m, o.APIKey)
	case o.APIKey != "":
		header.Set("X-Api-Key", o.APIKey)
	}
	if subscribed {
		header.Set("Anthropic-Beta", oauthBeta)
	}
	providers.SetCopilot(header, m, req)
	if key := providers.SessionKey(o); key != "" && m.Compat.SendSessionAffinityHeaders.Or(false) {
		name := "X-Session-Affinity"
		if m.Compat.SessionAffinityFormat == providers.AffinityOpenRouter {
			name = "X-Session-Id"
		}
		header.Set(name, key)
	}
	return header
}

// think sets the thinking option and the output limit.
func (b *body) think(m providers.Model, latest []providers.Message, o providers.Options) {
	sent := func(r providers.Reasoning) bool {
		return len(encodeReasoning(r, m.Compat.AllowEmptySignature.Or(false))) > 0
	}
	b.MaxTokens = cmp.Or(o.MaxTokens, DefaultMaxTokens)
	switch level := o.ThinkingLevel; {
	case level == providers.ThinkingOff:
		if m.Thinking.Takes(level) {
			b.Thinking = &claude.Thinking{Type: claude.Off}
		}
	case level != "" && m.Compat.ForceAdaptiveThinking.Or(false):
		b.Thinking, b.Output = &claude.Thinking{Type: claude.Adaptive, Display: "summarized"}, &outputConfig{Effort: claude.Effort(m, level)}
	case claude.AnswersOthers(latest, sent):
	default:
		limit, budget := claude.Budget(m, o)
		if b.MaxTokens = limit; budget > 0 {
			b.Thinking = &claude.Thinking{Type: claude.On, BudgetTokens: budget}
		}
	}
}

// ephemeral returns a marker of the prompt cache.
func ephemeral(m providers.Model) *cacheControl {
	c := &cacheControl{Type: "ephemeral"}
	if providers.LongCache(m) {
		c.TTL = "1h"
	}
	return c
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
