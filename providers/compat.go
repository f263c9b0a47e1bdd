package providers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Flag is a choice that need not have been made. The zero Flag is none. Its JSON is
// true or false, and null for none.
type Flag int8

// The flags.
const (
	FlagUnset Flag = iota
	FlagOff
	FlagOn
)

// FlagOf returns the Flag of a choice that was made.
func FlagOf(on bool) Flag {
	if on {
		return FlagOn
	}
	return FlagOff
}

// Or returns the choice, or otherwise if there is none.
func (f Flag) Or(otherwise bool) bool {
	if f == FlagUnset {
		return otherwise
	}
	return f == FlagOn
}

// MarshalJSON implements json.Marshaler.
func (f Flag) MarshalJSON() ([]byte, error) {
	if f == FlagUnset {
		return []byte("null"), nil
	}
	return json.Marshal(f == FlagOn)
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Flag) UnmarshalJSON(raw []byte) error {
	var on *bool
	if err := json.Unmarshal(raw, &on); err != nil {
		return err
	}
	*f = FlagUnset
	if on != nil {
		*f = FlagOf(*on)
	}
	return nil
}

// Object is the text of a JSON object that is sent as it is; empty means none.
type Object string

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return []byte(o), nil
}

// UnmarshalJSON implements json.Unmarshaler. It takes an object or null.
func (o *Object) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		*o = ""
		return nil
	}
	if len(raw) == 0 || raw[0] != '{' {
		return errors.New("is no JSON object")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return fmt.Errorf("is no JSON object: %w", err)
	}
	*o = Object(compact.String())
	return nil
}

// Compat says how a server differs from the one that its wire format is named after.
// Every field is optional: what is not given, a protocol derives from the provider's id
// and the host, and else takes from the format. A protocol reads the fields that it
// knows. Values can be compared with ==.
type Compat struct {
	// Requests of openai-completions: what the server takes.
	SupportsStore            Flag `json:"supportsStore,omitzero"`
	SupportsReasoningEffort  Flag `json:"supportsReasoningEffort,omitzero"`
	SupportsUsageInStreaming Flag `json:"supportsUsageInStreaming,omitzero"`
	// SupportsFinishReason off takes a response for whole that says [DONE] and gives no
	// reason for its end.
	SupportsFinishReason Flag `json:"supportsFinishReason,omitzero"`
	// MaxTokensField is "max_tokens" or "max_completion_tokens".
	MaxTokensField string `json:"maxTokensField,omitempty"`
	// How history has to look.
	RequiresToolResultName                      Flag `json:"requiresToolResultName,omitzero"`
	RequiresAssistantAfterToolResult            Flag `json:"requiresAssistantAfterToolResult,omitzero"`
	RequiresNonNullAssistantContent             Flag `json:"requiresNonNullAssistantContent,omitzero"`
	RequiresToolsWithToolHistory                Flag `json:"requiresToolsWithToolHistory,omitzero"`
	RequiresThinkingAsText                      Flag `json:"requiresThinkingAsText,omitzero"`
	RequiresReasoningContentOnAssistantMessages Flag `json:"requiresReasoningContentOnAssistantMessages,omitzero"`
	// ThinkingFormat is how thinking is switched: "openai", "openrouter", "deepseek",
	// "zai", "qwen", "qwen-chat-template", "chat-template", "baseten", "together",
	// "ant-ling" or "string-thinking".
	ThinkingFormat string `json:"thinkingFormat,omitempty"`
	// ThinkingTokenBudgetField is "thinking_budget", "thinking_budget_tokens" or
	// "thinking_token_budget".
	ThinkingTokenBudgetField string `json:"thinkingTokenBudgetField,omitempty"`
	// ChatTemplateKwargs and ChatTemplateArgs are sent as chat_template_kwargs and
	// chat_template_args. A member {"$var": NAME} becomes a value of the call; NAME is
	// "thinking.enabled", "thinking.effort" or "thinking.budget". "omitWhenOff": true
	// beside it leaves the member out while the model is not to think.
	ChatTemplateKwargs Object `json:"chatTemplateKwargs,omitzero"`
	ChatTemplateArgs   Object `json:"chatTemplateArgs,omitzero"`
	// OpenRouterRouting is sent as provider, VercelGatewayRouting as
	// providerOptions.gateway.
	OpenRouterRouting    Object `json:"openRouterRouting,omitzero"`
	VercelGatewayRouting Object `json:"vercelGatewayRouting,omitzero"`
	ZaiToolStream        Flag   `json:"zaiToolStream,omitzero"`
	// CacheControlFormat is "anthropic" where the prompt cache needs its marks.
	CacheControlFormat string `json:"cacheControlFormat,omitempty"`

	// Of several formats.
	SupportsDeveloperRole Flag `json:"supportsDeveloperRole,omitzero"`
	// SupportsStrictMode lets "strict" stand beside the schema of a tool.
	SupportsStrictMode Flag `json:"supportsStrictMode,omitzero"`
	// ToolSchemas is the SchemaDialect of the server, for one that a gateway hides: "plain", "claude",
	// "converse", "gemini", "openapi", "moonshot" or "fireworks".
	ToolSchemas string `json:"toolSchemas,omitempty"`
	// SupportsMaxOutputTokens is of the responses formats.
	SupportsMaxOutputTokens Flag `json:"supportsMaxOutputTokens,omitzero"`
	// SendSessionAffinityHeaders sends Options.SessionID in headers, which lead a
	// conversation to the machine that has its prompt cached. SessionAffinityFormat
	// names them: "openai", "openai-nosession" or "openrouter".
	SendSessionAffinityHeaders Flag   `json:"sendSessionAffinityHeaders,omitzero"`
	SessionAffinityFormat      string `json:"sessionAffinityFormat,omitempty"`
	// PromptCacheKeyMode is "auto", "enabled" or "disabled", of prompt_cache_key.
	PromptCacheKeyMode string `json:"promptCacheKeyMode,omitempty"`
	// SupportsLongCacheRetention off leaves out what Model.LongCacheRetention asks for.
	SupportsLongCacheRetention Flag `json:"supportsLongCacheRetention,omitzero"`
	// SupportsExplicitPromptCacheMode asks for it by prompt_cache_options, of openai-responses.
	SupportsExplicitPromptCacheMode Flag `json:"supportsExplicitPromptCacheMode,omitzero"`

	// Of anthropic-messages.
	ForceAdaptiveThinking Flag `json:"forceAdaptiveThinking,omitzero"`
	SupportsTemperature   Flag `json:"supportsTemperature,omitzero"`
	// AllowEmptySignature lets thinking go back that was never signed.
	AllowEmptySignature         Flag `json:"allowEmptySignature,omitzero"`
	SupportsCacheControlOnTools Flag `json:"supportsCacheControlOnTools,omitzero"`
	// SupportsEagerToolInputStreaming asks for arguments of calls as they are made, and
	// not when they are whole. By default it is on at the vendor whom the format is of.
	SupportsEagerToolInputStreaming Flag `json:"supportsEagerToolInputStreaming,omitzero"`
}

// Over returns c with what it does not say taken from base.
func (c Compat) Over(base Compat) Compat {
	own, out := reflect.ValueOf(c), reflect.ValueOf(&base).Elem()
	for i := range own.NumField() {
		if v := own.Field(i); !v.IsZero() {
			out.Field(i).Set(v)
		}
	}
	return base
}
