package anthropicmessages

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parleyrun/parley/providers"
)

const version = "2023-06-01"

// Tokens. The vendor refuses a smaller budget.
const (
	minBudget = 1024
	minAnswer = 1024
)

type body struct {
	Model       string          `json:"model"`
	MaxTokens   int             `json:"max_tokens"`
	Stream      bool            `json:"stream"`
	System      []block         `json:"system,omitempty"`
	Tools       []tool          `json:"tools,omitempty"`
	Messages    json.RawMessage `json:"messages"`
	Thinking    *thinking       `json:"thinking,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int    `json:"budget_tokens"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"`
}

// Encode implements providers.Codec.
func (c codec) Encode(m providers.Model, req providers.Request, o providers.Options) (*providers.Call, error) {
	messages, err := encodeMessages(m, req)
	if err != nil {
		return nil, err
	}
	var e providers.BodyEncoder
	b := body{Model: m.ID, Stream: true, Messages: e.Place(messages...)}
	if !blank(req.System) {
		b.System = []block{{Type: blockText, Text: req.System, CacheControl: ephemeral()}}
	}
	for _, t := range req.Tools {
		schema := t.InputSchema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		b.Tools = append(b.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: schema})
	}
	if n := len(b.Tools); n > 0 {
		b.Tools[n-1].CacheControl = ephemeral()
	}
	b.MaxTokens, b.Thinking = limits(m, o)
	if b.Thinking == nil {
		b.Temperature = o.Temperature
	}

	encoded, err := e.Encode(b)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	header.Set("Anthropic-Version", version)
	switch {
	case o.APIKey != "" && o.Bearer:
		header.Set("Authorization", "Bearer "+o.APIKey)
	case o.APIKey != "":
		header.Set("X-Api-Key", o.APIKey)
	}
	return &providers.Call{Path: "/v1/messages", Header: header, Body: encoded}, nil
}

// limits returns max_tokens and the thinking within it, nil for none.
func limits(m providers.Model, o providers.Options) (maxTokens int, t *thinking) {
	maxTokens = o.MaxTokens
	if maxTokens == 0 {
		maxTokens = DefaultMaxTokens
	}
	wanted := budget(o.ThinkingLevel)
	if wanted == 0 {
		return maxTokens, nil
	}
	raised := max(maxTokens, wanted+minAnswer)
	if m.MaxTokens > 0 {
		raised = min(raised, m.MaxTokens)
	}
	granted := min(wanted, raised-minAnswer)
	if granted < minBudget {
		return maxTokens, nil
	}
	return raised, &thinking{Type: "enabled", BudgetTokens: granted}
}

func budget(level providers.ThinkingLevel) int {
	switch level {
	case providers.ThinkingMinimal:
		return 1024
	case providers.ThinkingLow:
		return 2048
	case providers.ThinkingMedium:
		return 8192
	case providers.ThinkingHigh, providers.ThinkingXHigh, providers.ThinkingMax:
		return 16384
	}
	return 0
}

func ephemeral() *cacheControl { return &cacheControl{Type: "ephemeral"} }

func blank(s string) bool { return strings.TrimSpace(s) == "" }
