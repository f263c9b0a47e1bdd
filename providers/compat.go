package providers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Flag is an optional boolean. The zero Flag is unset. Its JSON is true, false or null.
type Flag int8

// The values of Flag.
const (
	FlagUnset Flag = iota
	FlagOff
	FlagOn
)

// FlagOf returns the Flag that is set to on.
func FlagOf(on bool) Flag {
	if on {
		return FlagOn
	}
	return FlagOff
}

// Or returns the value of f, or otherwise if f is unset.
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

// Object is the text of a JSON object that is sent verbatim; empty means none.
type Object string

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return []byte(o), nil
}

// UnmarshalJSON implements json.Unmarshaler. It accepts an object or null.
func (o *Object) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if string(raw) == "null" {
		*o = ""
		return nil
	}
	if len(raw) == 0 || raw[0] != '{' {
		return errors.New("not a JSON object")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	*o = Object(compact.String())
	return nil
}

// Compat describes how a server deviates from the reference server of its wire format. Every field is
// optional. A protocol derives unset fields from the provider's id and the host, then from the format.
// A protocol ignores fields of other formats. Values can be compared with ==.
type Compat struct {
	// Request features of openai-completions.
	SupportsStore            Flag `json:"supportsStore,omitzero"`
	SupportsReasoningEffort  Flag `json:"supportsReasoningEffort,omitzero"`
	SupportsUsageInStreaming Flag `json:"supportsUsageInStreaming,omitzero"`
	// SupportsFinishReason off accepts a response that ends with [DONE] and without a finish reason.
	SupportsFinishReason Flag `json:"supportsFinishReason,omitzero"`
	// MaxTokensField is "max_tokens" or "max_completion_tokens".
	MaxTokensField string `json:"maxTokensField,omitempty"`
	// Requirements on the history.
	RequiresToolResultName                      Flag `json:"requiresToolResultName,omitzero"`
	RequiresAssistantAfterToolResult            Flag `json:"requiresAssistantAfterToolResult,omitzero"`
	RequiresNonNullAssistantContent             Flag `json:"requiresNonNullAssistantContent,omitzero"`
	RequiresToolsWithToolHistory                Flag `json:"requiresToolsWithToolHistory,omitzero"`
	RequiresThinkingAsText                      Flag `json:"requiresThinkingAsText,omitzero"`
	RequiresReasoningContentOnAssistantMessages Flag `json:"requiresReasoningContentOnAssistantMessages,omitzero"`
	// ThinkingFormat selects how thinking is requested: "openai", "openrouter", "deepseek", "zai",
	// "qwen", "qwen-chat-template", "chat-template", "baseten", "together", "ant-ling" or
	// "string-thinking".
	ThinkingFormat string `json:"thinkingFormat,omitempty"`
	// ThinkingTokenBudgetField is "thinking_budget", "thinking_budget_tokens" or
	// "thinking_token_budget".
	ThinkingTokenBudgetField string `json:"thinkingTokenBudgetField,omitempty"`
	// ChatTemplateKwargs and ChatTemplateArgs are sent as chat_template_kwargs and chat_template_args.
	// A member {"$var": NAME} is replaced by a value of the call; NAME is "thinking.enabled",
	// "thinking.effort" or "thinking.budget". With "omitWhenOff": true the member is omitted while
	// thinking is off.
	ChatTemplateKwargs Object `json:"chatTemplateKwargs,omitzero"`
	ChatTemplateArgs   Object `json:"chatTemplateArgs,omitzero"`
	// OpenRouterRouting is sent as provider, VercelGatewayRouting as
	// providerOptions.gateway.
	OpenRouterRouting    Object `json:"openRouterRouting,omitzero"`
	VercelGatewayRouting Object `json:"vercelGatewayRouting,omitzero"`
	ZaiToolStream        Flag   `json:"zaiToolStream,omitzero"`
	// CacheControlFormat is "anthropic" if the prompt cache needs cache_control markers.
	CacheControlFormat string `json:"cacheControlFormat,omitempty"`

	// Features of several formats.
	SupportsDeveloperRole Flag `json:"supportsDeveloperRole,omitzero"`
	// SupportsStrictMode sends "strict" with the schema of a tool.
	SupportsStrictMode Flag `json:"supportsStrictMode,omitzero"`
	// ToolSchemas is the SchemaDialect of the server, needed behind a gateway: "plain", "claude",
	// "converse", "gemini", "openapi", "moonshot" or "fireworks".
	ToolSchemas string `json:"toolSchemas,omitempty"`
	// SupportsMaxOutputTokens applies to the responses formats.
	SupportsMaxOutputTokens Flag `json:"supportsMaxOutputTokens,omitzero"`
	// SendSessionAffinityHeaders sends Options.SessionID in headers that route a conversation to the
	// machine with its cached prompt. SessionAffinityFormat selects the headers: "openai",
	// "openai-nosession" or "openrouter".
	SendSessionAffinityHeaders Flag   `json:"sendSessionAffinityHeaders,omitzero"`
	SessionAffinityFormat      string `json:"sessionAffinityFormat,omitempty"`
	// PromptCacheKeyMode is "auto", "enabled" or "disabled"; it controls prompt_cache_key.
	PromptCacheKeyMode string `json:"promptCacheKeyMode,omitempty"`
	// SupportsLongCacheRetention off ignores Model.LongCacheRetention.
	SupportsLongCacheRetention Flag `json:"supportsLongCacheRetention,omitzero"`
	// SupportsExplicitPromptCacheMode requests the cache mode by prompt_cache_options, in
	// openai-responses.
	SupportsExplicitPromptCacheMode Flag `json:"supportsExplicitPromptCacheMode,omitzero"`

	// Features of anthropic-messages.
	ForceAdaptiveThinking Flag `json:"forceAdaptiveThinking,omitzero"`
	SupportsTemperature   Flag `json:"supportsTemperature,omitzero"`
	// AllowEmptySignature sends unsigned thinking back.
	AllowEmptySignature         Flag `json:"allowEmptySignature,omitzero"`
	SupportsCacheControlOnTools Flag `json:"supportsCacheControlOnTools,omitzero"`
	// SupportsEagerToolInputStreaming requests that arguments of calls are streamed as they are
	// generated. It is on by default at the vendor that defines the format.
	SupportsEagerToolInputStreaming Flag `json:"supportsEagerToolInputStreaming,omitzero"`
}

// Over returns c with unset fields taken from base.
func (c Compat) Over(base Compat) Compat {
	own, out := reflect.ValueOf(c), reflect.ValueOf(&base).Elem()
	for i := range own.NumField() {
		if v := own.Field(i); !v.IsZero() {
			out.Field(i).Set(v)
		}
	}
	return base
}
